"""The chart for Kubernetes: its values, and what it makes where helm is on this machine."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import make_secrets
import pytest
import yaml
from stack import COMPOSE, KUBERNETES, check_manifests

from tools import images

CHART = COMPOSE / "chart"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
MANIFESTS = COMPOSE / "kubernetes" / "ariane.yaml"


def helm(*words: str, fails: bool = False) -> str:
    """What helm says; the test is skipped where it is not to be had."""
    program = shutil.which("helm")
    if program is None:
        pytest.skip("helm is not on this machine")
    done = subprocess.run((program, *words), capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stdout + done.stderr


def made(namespace: str, words: Sequence[str] = ()) -> str:
    chart = ("template", "ariane", str(CHART), "--kube-version", KUBERNETES)
    return helm(*chart, "--namespace", namespace, *words)


def refused(values: dict[str, Any]) -> bool:
    try:
        jsonschema.validate(VALUES | values, SCHEMA)
    except jsonschema.ValidationError:
        return True
    return False


def containers(manifests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    pods = [
        each["spec"]["template"]["spec"] for each in manifests if "template" in each.get("spec", {})
    ]
    return [container for pod in pods for container in pod["containers"]]


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
    manifests = list(yaml.safe_load_all(MANIFESTS.read_text()))
    names = {
        variable["name"]
        for container in containers(manifests)
        for variable in container["env"]
        if variable["name"] != "POD_NAME"
    }
    assert len(names) > 30
    for name in names | {"ARIANE_BROKER_OTLP_ENDPOINT"}:
        assert refused({"settings": {"broker": {name: "x"}}}), name


def test_manifests_are_what_the_chart_makes():
    assert made("ariane") == MANIFESTS.read_text()


def test_helm_has_nothing_against_the_chart():
    helm("lint", "--strict", "--kube-version", KUBERNETES, str(CHART))
    assert "replicas" in helm(
        "lint",
        "--set",
        "brokers.replicas=none",
        "--kube-version",
        KUBERNETES,
        str(CHART),
        fails=True,
    )


def test_another_cluster_is_whole_and_its_certificates_are_made(tmp_path: Path):
    values = {
        "images": {"registry": "registry.example/mq", "tag": "7", "pullSecrets": ["registry"]},
        "superUsers": "boss,root",
        "database": {"secret": "shared", "key": "address"},
        "otlpEndpoint": "http://collector.monitoring.svc:4317",
        "nameServers": {"replicas": 3},
        "brokers": {
            "names": ["a", "b", "c"],
            "replicas": 3,
            "advertisedAddress": "$(POD_NAME).mq:1",
        },
        "gateways": {"replicas": 0},
        "storageClass": "fast",
        "settings": {"broker": {"ARIANE_BROKER_RETENTION_HOURS": "24"}},
        "pod": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}]},
    }
    given = tmp_path / "values.yaml"
    given.write_text(yaml.safe_dump(values))
    text = made("mq", ("--values", str(given)))
    manifests = list(yaml.safe_load_all(text))
    check_manifests(manifests)
    certificates = make_secrets.pods("mq", "abc", replicas=3, name_servers=3)
    mounted = set(re.findall(r"secretName: tls-([a-z0-9-]+)", text))
    assert mounted == {*certificates, "user-boss"}
    hosts = {host for _, names in certificates.values() for host in names}
    assert (
        set(re.findall(r"[a-z0-9.-]+\.mq\.svc", text.replace("$(POD_NAME)", "broker-c-2"))) <= hosts
    )
    brokers = [each for each in containers(manifests) if each["name"] == "broker"]
    assert len(brokers) == 3
    for container in containers(manifests):
        names = [variable["name"] for variable in container["env"]]
        assert len(names) == len(set(names)), "a variable twice"
        assert container["image"] == f"registry.example/mq/{container['name']}:7"
    for broker in brokers:
        told = {variable["name"]: variable for variable in broker["env"]}
        assert told["ARIANE_BROKER_RETENTION_HOURS"]["value"] == "24"
        assert told["ARIANE_BROKER_ADVERTISED_ADDRESS"]["value"] == "$(POD_NAME).mq:1"
        assert told["ARIANE_BROKER_SUPER_USERS"]["value"] == "boss,root"
        url = told["ARIANE_BROKER_REPLICA_SET_URL"]["valueFrom"]["secretKeyRef"]
        assert url == {"name": "shared", "key": "address"}
