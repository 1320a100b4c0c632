"""What helm makes of the chart: the manifests for those without helm, and other clusters."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import make_secrets
import pytest
import yaml
from stack import CHART, KUBERNETES, MANIFEST_FILE, check_manifests, containers_of

from ariane_testkit.programs.go_programs import GoProgramUnavailable, go_program
from tools.workspace import ROOT

HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
HELM_S_MAX = 780

# The first test of a machine builds it, for minutes.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def helm(*words: str, fails: bool = False) -> str:
    """What helm says; the test is skipped where it is not to be had."""
    try:
        program = go_program(HELM, ROOT / ".cache" / "go-programs", build_s_max=HELM_S_MAX)
    except GoProgramUnavailable as missing:
        pytest.skip(str(missing))
    done = subprocess.run((program, *words), capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stdout + done.stderr


def made(namespace: str, words: Sequence[str] = ()) -> str:
    chart = ("template", "ariane", str(CHART), "--kube-version", KUBERNETES)
    return helm(*chart, "--namespace", namespace, *words)


def test_manifests_are_what_the_chart_makes():
    assert made("ariane") == MANIFEST_FILE.read_text()


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


def test_a_version_of_kubernetes_that_lacks_what_the_pods_need_is_refused():
    command = ("template", "ariane", str(CHART), "--kube-version")
    assert "1.27.0" in helm(*command, "1.27.0", fails=True)
    assert helm(*command, "1.28.0")


def test_the_smallest_cluster_keeps_probes_rights_ports_budgets_and_policies(tmp_path: Path):
    """Whatever values say, what keeps a cluster safe is that of the manifests without helm."""
    given = tmp_path / "values.yaml"
    given.write_text(
        yaml.safe_dump(
            {
                "nameServers": {"replicas": 1, "resources": None},
                "brokers": {"names": ["only"], "replicas": 1, "flushMode": "async"},
                "checkers": {"replicas": 1},
                "gateways": {"replicas": 1},
                "metricsNamespace": "watching",
                "pod": {"priorityClassName": "high"},
            }
        )
    )
    smallest = list(yaml.safe_load_all(made("mq", ("--values", str(given)))))
    check_manifests(smallest)
    plain = list(yaml.safe_load_all(MANIFEST_FILE.read_text()))
    assert safety(smallest) == safety(plain)
    assert [each["spec"]["replicas"] for each in smallest if "replicas" in each["spec"]] == [1] * 5


def safety(manifests: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What values have no say in, by application; brokers are of one kind."""
    kept = ("startupProbe", "readinessProbe", "livenessProbe", "lifecycle", "ports")
    found: dict[str, Any] = {
        container["name"]: {key: container.get(key) for key in (*kept, "securityContext")}
        for container in containers_of(manifests)
    }
    for each in manifests:
        kind, spec = each["kind"], each["spec"]
        if kind == "NetworkPolicy" and each["metadata"]["name"] != "metrics":
            found[f"policy of {each['metadata']['name']}"] = spec
        elif kind == "PodDisruptionBudget":
            app = spec["selector"]["matchLabels"]["app"]
            found[f"budget of {app}"] = spec["maxUnavailable"]
        elif "template" in spec:
            app = spec["selector"]["matchLabels"]["app"]
            pod = spec["template"]["spec"]
            found[f"pods of {app}"] = (
                pod["securityContext"],
                pod.get("terminationGracePeriodSeconds"),
            )
    return found


def test_another_cluster_is_whole_and_its_certificates_are_made(tmp_path: Path):
    values = {
        "images": {"registry": "registry.example/mq", "tag": "7", "pullSecrets": ["registry"]},
        "superUsers": "boss,root",
        "database": {"secret": "shared", "key": "address"},
        "otlpEndpoint": "https://collector.monitoring.svc:4317",
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
    brokers = [each for each in containers_of(manifests) if each["name"] == "broker"]
    assert len(brokers) == 3
    for container in containers_of(manifests):
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
