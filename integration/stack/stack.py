"""The stack of compose/ as containers, started and spoken to from outside of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Self

import kubernetes_validate
import make_secrets
import yaml

from tools import images
from tools.workspace import ROOT

COMPOSE: Final = ROOT / "compose"
CHART: Final = COMPOSE / "chart"
MANIFEST_FILE: Final = COMPOSE / "kubernetes" / "ariane.yaml"
"""What the chart makes of its values; ``test_helm.py`` sees that it does."""

PROJECT: Final = "ariane-trial"
NETWORK: Final = f"{PROJECT}_cluster"
GATEWAY: Final = "10.77.0.1"
NAME_SERVERS: Final = ["127.0.0.1:9876", "127.0.0.1:9877"]
ENGINES: Final = {"docker": ["docker", "compose"], "podman": ["podman-compose"]}


KUBERNETES: Final = "1.32"
"""Against whose schemas the manifests are held."""


def check_manifests(manifests: Iterable[dict[str, Any]]) -> None:
    """Hold manifests against the schemas of Kubernetes.

    Raises:
        kubernetes_validate.ValidationError: One of them has a field that is unknown or wrong.
    """
    for each in manifests:
        # Strict: a field that Kubernetes would pass over in silence is an error.
        kubernetes_validate.validate(each, KUBERNETES, strict=True)


def containers_of(manifests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The containers of all pods, none of which is root's."""
    pods = [
        each["spec"]["template"]["spec"] for each in manifests if "template" in each.get("spec", {})
    ]
    assert len(pods) > 3
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"]
    return [container for pod in pods for container in pod["containers"]]


def missing() -> str:
    """What this machine lacks for the stack; empty when it has all."""
    engine = engine_here()
    if not engine:
        return "a container engine with compose"
    listed = subprocess.run(
        (engine, "images", "--format", "{{.Repository}}"), capture_output=True, check=False
    ).stdout.decode()
    built = {line.rpartition("ariane/")[2] for line in listed.splitlines()}
    absent = [name for name in images.TARGETS if name not in built]
    return f"the images of {', '.join(absent)}, which `make images` builds" if absent else ""


def engine_here() -> str:
    """docker or podman, where it runs and has compose."""
    for engine, words in ENGINES.items():
        if images.works(engine) and shutil.which(words[0]):
            done = subprocess.run((*words, "version"), capture_output=True, check=False)
            if done.returncode == 0:
                return engine
    return ""


class Stack:
    """One run of it; its volumes and its network go at the end.

    Args:
        file: Which of the stacks in compose/.
        gateway: Of its network, as the file says.
    """

    def __init__(self, file: str = "compose.yaml", gateway: str = GATEWAY) -> None:
        self.engine = engine_here()
        self._gateway = gateway
        self._words = [*ENGINES[self.engine], "-p", PROJECT, "-f", file]

    def up(self, *services: str) -> None:
        """Start services, or those that are away."""
        self.compose("up", "-d", *services)
        for service in services:
            # Some compose tools tell of no failure.
            state = self.run("inspect", "-f", "{{.State.Status}}", self.container(service)).strip()
            assert state == "running", f"{service} is {state}"

    def up_beside(self, *services: str) -> None:
        """Start services that live in the network of another, as compose.yaml says.

        Older compose tools of podman hand ``service:`` on to podman, which does not know it, and
        give such a service a network of its own as well.
        """
        if self.engine == "docker":
            self.up(*services)
            return
        text = filled((COMPOSE / "compose.yaml").read_text(), os.environ)
        for name in services:
            service = yaml.safe_load(text)["services"][name]
            [host] = re.findall(r"^service:(.+)$", service["network_mode"])
            words = [
                "--name",
                f"{PROJECT}_{name}_1",
                "--network",
                f"container:{self.container(host)}",
            ]
            words += [f"--cap-drop={each}" for each in service["cap_drop"]]
            words += [f"--security-opt={each}" for each in service["security_opt"]]
            words += [f"--tmpfs={each}" for each in service["tmpfs"]]
            words += [f"--volume={_source(each)}" for each in service["volumes"]]
            words += [
                f"--volume={COMPOSE}/secrets/{each}:/run/secrets/{each}:ro"
                for each in service.get("secrets", ())
            ]
            words += [f"--env={key}={value}" for key, value in service["environment"].items()]
            words += [f"--memory={service['mem_limit']}", f"--cpus={service['cpus']}"]
            self.run("run", "-d", "--read-only", *words, service["image"])

    def container(self, service: str) -> str:
        """The name of a service's container."""
        names = {f"{PROJECT}_{service}_1", f"{PROJECT}-{service}-1"}
        [name] = names & set(self.run("ps", "-a", "--format", "{{.Names}}").split())
        return name

    def start_of(self, service: str) -> tuple[float, float] | None:
        """How long a container took to serve, and of a core since; None if it does not yet.

        Returns:
            Seconds by the clock from its start until it served, and CPU seconds by now.
        """
        container = self.container(service)
        ready = re.search(r'"time": "([^"]+)"[^\n]*"event": "service_ready"', self.log(service))
        if ready is None:
            return None
        [found] = json.loads(self.run("inspect", container))
        # Nanoseconds are more than Python's clock has.
        started = re.sub(r"(\.\d{6})\d*", r"\1", found["State"]["StartedAt"])
        passed = datetime.fromisoformat(ready[1]) - datetime.fromisoformat(started)
        times = (
            self.run("exec", container, "cat", "/proc/1/stat").rpartition(") ")[2].split()[11:15]
        )
        return passed.total_seconds(), sum(map(int, times)) / os.sysconf("SC_CLK_TCK")

    def lose(self, service: str) -> None:
        """Kill a container, and take its disk away."""
        container = self.container(service)
        self.run("kill", container)
        self.run("rm", "-f", "-v", container)
        self.run("volume", "rm", f"{PROJECT}_{service}")

    def run(self, *words: str, check: bool = True) -> str:
        """Have the engine do something; return what it writes."""
        done = subprocess.run((self.engine, *words), capture_output=True, text=True, check=False)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def log(self, service: str) -> str:
        """What a container has logged."""
        command = (self.engine, "logs", self.container(service))
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr

    def compose(self, *words: str) -> None:
        """Have compose do something."""
        command = [*self._words, *words]
        done = subprocess.run(
            command, cwd=COMPOSE, env=os.environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def __enter__(self) -> Self:
        self._leave()
        if self.engine == "podman":
            # Older compose tools of it know no addresses of networks.
            subnet = self._gateway.rpartition(".")[0] + ".0/24"
            words = ("--subnet", subnet, "--gateway", self._gateway)
            self.run("network", "create", *words, NETWORK)
        make_secrets.main(())
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        """Remove what an earlier run, or this one, has left: some compose tools leave volumes."""
        containers = self._ours("ps", "-a", "--format", "{{.Names}}")
        if containers:
            self.run("rm", "-f", "-v", *containers, check=False)
        subprocess.run([*self._words, "down", "-v"], cwd=COMPOSE, capture_output=True, check=False)
        if volumes := self._ours("volume", "ls", "--format", "{{.Name}}"):
            self.run("volume", "rm", *volumes, check=False)
        subprocess.run((self.engine, "network", "rm", NETWORK), capture_output=True, check=False)

    def _ours(self, *words: str) -> list[str]:
        """Names of the project among what the engine lists."""
        names = self.run(*words, check=False).split()
        return [each for each in names if each.startswith((f"{PROJECT}_", f"{PROJECT}-"))]


def _source(volume: str) -> str:
    """A volume as podman takes it: a folder of compose/, or one of the project."""
    if volume.startswith("./"):
        return str(COMPOSE / volume)
    return f"{PROJECT}_{volume}"


def filled(text: str, variables: Mapping[str, str]) -> str:
    """A file of compose with its variables filled in, as compose does it."""

    def value_of(found: re.Match[str]) -> str:
        name, also_for_empty, default = found.groups()
        value = variables.get(name)
        return default if value is None or (also_for_empty and not value) else value

    return re.sub(r"\$\{(\w+)(:?)-([^}]*)\}", value_of, text)
