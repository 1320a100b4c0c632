"""Dashboard and alerts name metrics that are there."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

from tools.reference.metrics_page import CALLS, metrics
from tools.workspace import ROOT

TELEMETRY = ROOT / "compose" / "telemetry"
FOREIGN = {"up", f"{CALLS}_count", "process_cpu_seconds_total", "process_resident_memory_bytes"}


def known():
    return {each.prometheus for told in metrics().values() for each in told} | FOREIGN


def expressions():
    alerts = yaml.safe_load((TELEMETRY / "alerts.yaml").read_text())
    yield from (rule["expr"] for group in alerts["groups"] for rule in group["rules"])
    dashboard = json.loads((TELEMETRY / "dashboard.json").read_text())
    yield from (query["expr"] for panel in dashboard["panels"] for query in panel["targets"])


def names_in(expression):
    """The metrics of a query: what is no function, label, or word of the language."""
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\b(by|without)\s*\([^)]*\)", " ", expression)
    return set(re.findall(r"\b[a-z_]+\b(?!\s*\()", bare)) - {"and", "by", "or"}


@pytest.mark.parametrize("expression", list(expressions()))
def test_every_metric_that_is_drawn_or_watched_is_told(expression):
    names = names_in(expression)
    assert names
    assert names <= known()


def test_a_name_that_is_told_by_nobody_would_be_found():
    assert not names_in("sum by (topic) (rate(ariane_topics_gone[5m]))") <= known()


def test_every_alert_says_what_to_do():
    alerts = yaml.safe_load((TELEMETRY / "alerts.yaml").read_text())
    for rule in alerts["groups"][0]["rules"]:
        assert rule["annotations"]["action"], rule["alert"]
        assert rule["labels"]["severity"] in {"warning", "critical"}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Debian's package prometheus has it")
def test_alerts_fire_on_what_they_are_for():
    for command in (("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")):
        done = subprocess.run(
            ("promtool", *command), cwd=TELEMETRY, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_no_metric_is_told_twice():
    told = [each.name for service in metrics().values() for each in service]
    assert len(told) == len(set(told))
