"""The values of the chart for Kubernetes; what helm makes of them is test_helm.py's."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import yaml
from stack import CHART, MANIFEST_FILE, containers_of

from tools import images

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def refused(values: dict[str, Any]) -> bool:
    try:
        jsonschema.validate(VALUES | values, SCHEMA)
    except jsonschema.ValidationError:
        return True
    return False


def test_the_chart_installs_the_images_of_its_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert f"ariane/broker:{chart['appVersion']}" == images.tag_of("broker")
    assert chart["version"] == chart["appVersion"]


def test_values_that_the_chart_does_not_know_are_refused():
    assert not refused({})
    assert not refused({"settings": {"broker": {"ARIANE_BROKER_RETENTION_HOURS": "24"}}})
    for wrong in (
        {"broker": {}},
        {"brokers": {"names": []}},
        {"brokers": {"names": ["a", "a"]}},
        {"brokers": {"names": ["A"]}},
        {"brokers": {"replicas": "2"}},
        {"nameServers": {"replicas": 0}},
        {"filters": {"uploads": "on"}},
        {"settings": {"broker": {"ARIANE_BROKER_RETENTION_HOURS": 24}}},
        {"settings": {"brokers": {}}},
        {"pod": {"containers": []}},
    ):
        assert refused(wrong), wrong


def test_a_setting_that_the_chart_makes_is_not_the_users():
    """Else the same variable would stand twice in a container."""
    manifests = list(yaml.safe_load_all(MANIFEST_FILE.read_text()))
    names = {
        variable["name"]
        for container in containers_of(manifests)
        for variable in container["env"]
        if variable["name"] != "POD_NAME"
    }
    assert len(names) > 30
    for name in names | {"ARIANE_BROKER_OTLP_ENDPOINT"}:
        assert refused({"settings": {"broker": {name: "x"}}}), name
