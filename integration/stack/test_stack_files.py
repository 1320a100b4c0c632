"""What describes the stack is right, as far as that can be told without a container engine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import make_secrets
import pytest
import yaml
from stack import COMPOSE, MANIFEST_FILE, check_manifests, containers_of, filled

from ariane_servicekit.configuration.settings_sources import environment_name
from tools import images
from tools.reference.settings_page import SERVICES
from tools.workspace import ROOT

STACKS = {
    name: yaml.safe_load((COMPOSE / name).read_text())
    for name in ("compose.yaml", "compose.dev.yaml")
}
FILLED = {name: yaml.safe_load(filled((COMPOSE / name).read_text(), {})) for name in STACKS}
"""The same with the defaults of their variables."""

MANIFESTS = list(yaml.safe_load_all(MANIFEST_FILE.read_text()))

VARIABLES = {
    environment_name(settings, field) for _, settings in SERVICES for field in settings.model_fields
} | {"ARIANE_NAME_SERVERS", "ARIANE_TLS_CA", "ARIANE_TLS_CERTIFICATE", "ARIANE_TLS_KEY"}

ADVERTISED = "ARIANE_BROKER_ADVERTISED_ADDRESS"
FOREIGN = {"postgres", "collector", "prometheus", "grafana"}
"""Services of others: their images come from registries."""


SECRETS = {*make_secrets.CONTAINERS, *(f"user-{user}" for user in make_secrets.USERS)}
"""Folders that are made for the stack."""


def ours(stack: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: each for name, each in stack["services"].items() if name not in FOREIGN}


def containers() -> list[dict[str, Any]]:
    return containers_of(MANIFESTS)


def test_every_image_has_a_target_and_is_built_by_the_verb():
    targets = set(
        re.findall(r"^FROM service AS (\S+)$", (COMPOSE / "Dockerfile").read_text(), re.MULTILINE)
    )
    assert targets == {*images.TARGETS, *images.JOBS}
    for stack in STACKS.values():
        for service in ours(stack).values():
            target = service["build"]["target"]
            assert target in targets
            assert f"/{target}:" in service["image"]
    used = {container["image"] for container in containers()}
    assert used == {images.tag_of(target) for target in images.TARGETS}


def test_settings_of_containers_are_settings_of_services():
    assert len(VARIABLES) > 100
    said = {
        name.removesuffix("_FILE") if str(value).startswith("/run/secrets/") else name
        for stack in STACKS.values()
        for service in ours(stack).values()
        for name, value in service.get("environment", {}).items()
    }
    said |= {
        variable["name"]
        for container in containers()
        for variable in container.get("env", [])
        if variable["name"] != "POD_NAME"
    }
    assert len(said) > 10
    assert said <= VARIABLES


def test_services_of_the_stack_are_bounded_watched_and_without_rights():
    for name, service in ours(STACKS["compose.yaml"]).items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert service["cpus"], name
        assert service["healthcheck"]["test"][0] == "CMD", name
    for container in containers():
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        # Probes by gRPC speak plain text, which a closed service drops.
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert container[probe]["exec"]["command"][:2] == ["python", "/opt/health.py"]


def test_services_of_others_are_pinned_bounded_and_without_rights():
    services = STACKS["compose.yaml"]["services"]
    for name in FOREIGN:
        service = services[name]
        assert re.fullmatch(
            r"\$\{[A-Z_]+:-[a-z/-]+:v?\d+\.\d+(\.\d+)?[a-z0-9-]*\}", service["image"]
        )
        assert service["read_only"], name
        assert service["mem_limit"], name
        assert service["cpus"], name
    for name in FOREIGN - {"postgres"}:
        assert services[name]["cap_drop"] == ["ALL"], name
        assert not services[name]["user"].startswith("0:"), name
        assert all(port.startswith("127.0.0.1:") for port in services[name]["ports"]), name


def own_settings(name: str, told: dict[str, Any]) -> dict[str, str]:
    """Settings of the service itself, without its name."""
    [kind] = {
        match[1] for each in told if (match := re.fullmatch(r"ARIANE_([A-Z_]+)_ACCESS", each))
    } or {""}
    assert kind, name
    start = f"ARIANE_{kind}_"
    return {key.removeprefix(start): str(each) for key, each in told.items()}


CLOSED = {
    "ACCESS": "closed",
    "TLS_CERTIFICATE": "/run/ariane/certificate.pem",
    "TLS_KEY": "/run/ariane/key.pem",
    "TLS_MEMBERS": "/run/ariane/members.pem",
    "TLS_USERS": "/run/ariane/users.pem",
}


def test_every_service_is_closed_and_shows_a_certificate_that_was_made_for_it():
    assert "insecure" not in (COMPOSE / "Dockerfile").read_text()
    hosts = {name: set(names) for name, (_, names) in make_secrets.CONTAINERS.items()}
    for name, service in ours(FILLED["compose.yaml"]).items():
        told = service["environment"]
        assert not [each for each in told if each.endswith("_INSECURE")], name
        [own] = [
            volume.split(":")[0].removeprefix("./secrets/")
            for volume in service["volumes"]
            if volume.endswith(":/run/ariane:ro")
        ]
        if name == "spark-archive":
            assert own == "user-archive"
            continue
        assert CLOSED.items() <= own_settings(name, told).items(), name
        assert service.get("network_mode", name).removeprefix("service:") in hosts[own], name
    for container in containers():
        told = {each["name"]: each.get("value", "") for each in container["env"]}
        assert CLOSED.items() <= own_settings(container["name"], told).items(), container["name"]
        assert "/run/ariane" in {each["mountPath"] for each in container["volumeMounts"]}
        servers = told.get("ARIANE_NAME_SERVERS", "namesrv-0.namesrv.ariane.svc:9876")
        names = {each.rpartition(":")[0] for each in servers.split(",")}
        assert names <= set(make_secrets.pods()["namesrv"][1])
    text = MANIFEST_FILE.read_text()
    mounted = set(re.findall(r"secretName: tls-([a-z0-9-]+)", text))
    assert mounted == {*make_secrets.pods(), "user-root"}


def test_every_service_keeps_what_admin_tells_where_it_outlives_a_restart():
    kept = set()
    told = {name: each["environment"] for name, each in ours(FILLED["compose.yaml"]).items()}
    mounted = {
        name: {volume.split(":")[1]: volume.split(":")[0] for volume in each["volumes"]}
        for name, each in ours(FILLED["compose.yaml"]).items()
    }
    for place, container in enumerate(containers()):
        name = f"{container['name']} {place}"
        told[name] = {each["name"]: each.get("value", "") for each in container["env"]}
        mounted[name] = {each["mountPath"]: name for each in container["volumeMounts"]}
    for name, settings in told.items():
        files = [
            Path(value)
            for variable, value in settings.items()
            if variable.endswith(("_ACCESS_RULES_FILE", "_ADMIN_KEYS_FILE"))
        ]
        # Admin tells them from its database, and the archive is a client.
        if "admin" not in name and name != "spark-archive":
            assert len(files) == (2 if "gateway" in name else 1), name
        for file in files:
            place = mounted[name][str(file.parent)], file.name
            assert place not in kept, f"{name}: another process keeps its own there"
            kept.add(place)
    assert len(kept) > 10


def test_settings_are_read_from_secrets_and_from_no_other_file(tmp_path):
    text = (COMPOSE / "with-secrets.sh").read_text().replace("/run/secrets", str(tmp_path))
    (tmp_path / "url").write_text("x://secret\n")
    given = {"ARIANE_A_URL_FILE": str(tmp_path / "url"), "ARIANE_A_RULES_FILE": "/none/rules"}
    done = subprocess.run(
        ("sh", "-c", text, "sh", "env"),
        env={"PATH": os.environ["PATH"], **given},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert told["ARIANE_A_URL"] == "x://secret"
    assert told["ARIANE_A_RULES_FILE"] == "/none/rules"
    assert "ARIANE_A_URL_FILE" not in told


def test_prometheus_reads_every_service_where_it_tells():
    scraped = yaml.safe_load((COMPOSE / "telemetry" / "prometheus.yaml").read_text())
    jobs = {
        each["job_name"]: each["static_configs"][0]["targets"] for each in scraped["scrape_configs"]
    }
    told = set()
    for name, service in ours(STACKS["compose.yaml"]).items():
        for variable, value in service.get("environment", {}).items():
            if variable.endswith("_METRICS_LISTEN"):
                host = service.get("network_mode", f"service:{name}").removeprefix("service:")
                port = value.rpartition(":")[2]
                kind = variable.removeprefix("ARIANE_").removesuffix("_METRICS_LISTEN")
                job = "ariane-" + kind.lower().replace("_", "-")
                assert f"{host}:{port}" in jobs[job], name
                told.add(f"{host}:{port}")
    read = {
        target for job, targets in jobs.items() if job.startswith("ariane-") for target in targets
    }
    assert read == told
    assert len(told) == len(ours(STACKS["compose.yaml"])) - 1, "all but the job of Spark"
    assert jobs["applications"] == ["collector:8889"]


def test_prometheus_understands_its_files():
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not on this machine")
    telemetry = COMPOSE / "telemetry"
    for words in (
        ("check", "config", "--syntax-only", str(telemetry / "prometheus.yaml")),
        ("check", "rules", str(telemetry / "alerts.yaml")),
    ):
        done = subprocess.run(("promtool", *words), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_pipelines_of_the_collector_have_their_parts():
    collector = yaml.safe_load((COMPOSE / "telemetry" / "collector.yaml").read_text())
    service = collector["service"]
    assert set(service["pipelines"]) == {"traces", "metrics"}
    for pipeline in service["pipelines"].values():
        for kind, names in pipeline.items():
            assert set(names) <= set(collector[kind]), names
    assert set(service["extensions"]) <= set(collector["extensions"])


def test_grafana_finds_what_it_is_given():
    grafana = STACKS["compose.yaml"]["services"]["grafana"]
    mounted = dict(volume.split(":")[:2] for volume in grafana["volumes"] if volume[0] == ".")
    folders = {Path(target).parent for target in mounted.values()}
    provider = yaml.safe_load((COMPOSE / "telemetry/grafana/dashboards.yaml").read_text())
    assert Path(provider["providers"][0]["options"]["path"]) in folders
    assert grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] in mounted.values()
    source = yaml.safe_load((COMPOSE / "telemetry/grafana/datasource.yaml").read_text())
    [prometheus] = source["datasources"]
    assert prometheus["url"] == "http://prometheus:9090"


def test_what_is_named_in_a_stack_is_there_and_ports_are_taken_once():
    for stack in FILLED.values():
        ports = [
            port.split(":")[-2]
            for each in stack["services"].values()
            for port in each.get("ports", [])
        ]
        assert len(ports) == len(set(ports)) > 0
        for name, service in stack["services"].items():
            for volume in service.get("volumes", []):
                source = volume.split(":")[0]
                made = source.removeprefix("./secrets/")
                known = source in stack["volumes"] or made in SECRETS
                assert known or (COMPOSE / source).is_file(), name
            for secret in service.get("secrets", []):
                assert secret in stack["secrets"], name
            for other in service.get("depends_on", []):
                assert other in stack["services"], name
            mode = service.get("network_mode", "service:" + name)
            assert mode.removeprefix("service:") in stack["services"], name


def refused_by_the_compose_schema(path: Path) -> str:
    """What the schema of the Compose Specification has against a file; empty if nothing."""
    command = ("-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path))
    done = subprocess.run(
        (sys.executable, *command), capture_output=True, text=True, check=False, timeout=120
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_stacks_are_what_the_compose_specification_allows(tmp_path):
    for name in STACKS:
        assert refused_by_the_compose_schema(COMPOSE / name) == ""
    # And it does look: a misspelled key is refused.
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((COMPOSE / "compose.dev.yaml").read_text().replace("ports:", "port:"))
    assert "port" in refused_by_the_compose_schema(wrong)


@pytest.mark.slow
def test_a_compose_tool_merges_and_fills_in_the_stacks(tmp_path):
    """What `compose config` makes of them: anchors merged, variables filled in."""
    podman = tmp_path / "podman"
    podman.write_text("#!/bin/sh\necho podman version 5.0.0\n")
    podman.chmod(0o755)
    command = (sys.executable, "-m", "podman_compose", "--podman-path", str(podman))
    environment = {"PATH": os.environ["PATH"], "ARIANE_HOST": "192.0.2.17"}
    for name, stack in STACKS.items():
        done = subprocess.run(
            (*command, "-f", name, "config"),
            cwd=COMPOSE,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "${" not in done.stdout
        services = yaml.safe_load(done.stdout)["services"]
        assert set(services) == set(stack["services"])
        said = [each.get("environment", {}).get(ADVERTISED) for each in services.values()]
        assert all(address.startswith("192.0.2.17:1") for address in said if address)
        assert any(said)


def test_manifests_are_what_kubernetes_takes():
    assert len(MANIFESTS) > 8
    check_manifests(MANIFESTS)
    # And it does look: a misspelled field is refused.
    [namesrv] = [
        each
        for each in MANIFESTS
        if each["metadata"]["name"] == "namesrv" and each["kind"] == "StatefulSet"
    ]
    with pytest.raises(kubernetes_validate.ValidationError):
        check_manifests([namesrv | {"spec": namesrv["spec"] | {"replica": 3}}])


def test_brokers_say_where_their_ports_are_published():
    moved = {
        "ARIANE_HOST": "192.0.2.17",
        "ARIANE_BROKER_A_0_PORT": "7",
        "ARIANE_BROKER_A_PORT": "7",
    }
    said = []
    for name in STACKS:
        stack = yaml.safe_load(filled((COMPOSE / name).read_text(), moved))
        for service in stack["services"].values():
            for variable, value in service.get("environment", {}).items():
                if variable.endswith("_ADVERTISED_ADDRESS"):
                    host = service.get("network_mode", "").removeprefix("service:")
                    ports = (stack["services"][host] if host else service)["ports"]
                    address, _, port = value.rpartition(":")
                    assert address == "192.0.2.17"
                    assert port in {each.split(":")[-2] for each in ports}
                    said.append(port)
    assert said.count("7") == len(STACKS)


def test_every_port_on_the_machine_can_be_moved_and_telemetry_switched_off():
    for name, stack in STACKS.items():
        for service in stack["services"].values():
            for port in service.get("ports", []):
                assert re.fullmatch(
                    r"(127\.0\.0\.1:|\$\{ARIANE_HOST:-[0-9.]+\}:)?\$\{[A-Z0-9_]+_PORT:-\d+\}:\d+",
                    port,
                )
        off = yaml.safe_load(filled((COMPOSE / name).read_text(), {"ARIANE_OTLP_ENDPOINT": ""}))
        told = {
            value
            for service in off["services"].values()
            for variable, value in service.get("environment", {}).items()
            if variable.endswith("_OTLP_ENDPOINT")
        }
        assert told == ({""} if name == "compose.yaml" else set())


def test_no_volume_is_without_a_name():
    """What an image calls a volume and no service names is left behind by each `down`."""
    stages = re.split(r"^FROM ", (COMPOSE / "Dockerfile").read_text(), flags=re.MULTILINE)
    keeping = {
        stage.split()[2]: volume
        for stage in stages
        for volume in re.findall(r"^VOLUME (\S+)$", stage, re.MULTILINE)
    }
    assert len(keeping) > 2
    assert "service" not in keeping, "all images are made from it"
    for stack in STACKS.values():
        for name, service in ours(stack).items():
            needed = keeping.get(service["build"]["target"])
            mounted = {volume.split(":")[1] for volume in service.get("volumes", [])}
            assert needed is None or needed in mounted, name


def test_kustomize_puts_the_manifests_together():
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on this machine")
    command = ("kubectl", "kustomize", str(COMPOSE / "kubernetes"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = list(yaml.safe_load_all(done.stdout))
    check_manifests(made)
    assert {each["kind"] for each in made} >= {"StatefulSet", "Deployment", "Service", "Namespace"}
    shown = {
        each["metadata"]["name"]: {
            volume["secret"]["secretName"]
            for volume in each["spec"]["template"]["spec"]["volumes"]
            if "secret" in volume
        }
        for each in made
        if each["kind"] == "StatefulSet"
    }
    assert shown["broker-a"] == {"tls-broker-a", "tls-filter-a"}
    assert shown["broker-b"] == {"tls-broker-b", "tls-filter-b"}
    assert all(each["metadata"].get("namespace", "ariane") == "ariane" for each in made)


def test_units_are_understood_by_systemd():
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not on this machine")
    units = [str(path) for path in sorted((COMPOSE / "systemd").glob("*.service"))]
    assert len(units) == len(images.TARGETS)
    command = ("systemd-analyze", "verify", *units)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if "is not executable" not in line]
    assert complaints == []


def test_units_start_programs_of_the_members():
    for unit in (COMPOSE / "systemd").glob("*.service"):
        [program] = re.findall(r"^ExecStart=/opt/ariane/bin/(\S+)", unit.read_text(), re.MULTILINE)
        name = unit.name.removesuffix(".service").rstrip("@")
        assert program == name
        assert Path(ROOT, "services", name.removeprefix("ariane-"), "pyproject.toml").exists()


def test_every_port_of_a_pod_is_let_in_and_every_pair_is_spread_and_has_a_budget():
    of_kind: dict[str, list[dict[str, Any]]] = {}
    for each in MANIFESTS:
        of_kind.setdefault(each.get("kind", ""), []).append(each)
    named = {each["metadata"]["name"]: each["spec"] for each in of_kind["NetworkPolicy"]}
    budgets = {
        each["spec"]["selector"]["matchLabels"]["app"] for each in of_kind["PodDisruptionBudget"]
    }
    # None selects all pods of the namespace: it would cut off a PostgreSQL beside them.
    [scraped] = named.pop("metrics")["podSelector"]["matchExpressions"]
    for app, policy in named.items():
        assert policy["podSelector"] == {"matchLabels": {"app": app}}
        assert policy["policyTypes"] == ["Ingress"]
    assert scraped == {"key": "app", "operator": "In", "values": sorted(named)}
    for workload in (*of_kind["StatefulSet"], *of_kind["Deployment"]):
        app = workload["spec"]["selector"]["matchLabels"]["app"]
        pod = workload["spec"]["template"]["spec"]
        ports = {
            port["containerPort"] for each in pod["containers"] for port in each.get("ports", [])
        }
        [rule] = named[app]["ingress"]
        assert {each["port"] for each in rule["ports"]} == ports, app
        if workload["spec"]["replicas"] > 1:
            assert app in budgets
            assert pod["topologySpreadConstraints"], app
