"""One cluster for all languages, and their programs."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ariane_sdk.sync import ClusterClient, DeadLetters, QueueReader
from ariane_servicekit.running.processes import LocalCluster

sys.path.append(str(Path(__file__).parent))

from languages import Worker, build, missing


@pytest.fixture(scope="session")
def cluster(tmp_path_factory) -> Iterator[LocalCluster]:
    flags = (
        *("--segment-bytes", str(64 << 20), "--no-auto-create-topics"),
        *(
            "--disk-clean-ratio",
            "0.97",
            "--disk-force-ratio",
            "0.98",
            "--disk-refuse-ratio",
            "0.99",
        ),
    )
    with LocalCluster(
        tmp_path_factory.mktemp("cluster"),
        brokers=2,
        checkers=1,
        admin=True,
        extra_broker_args=flags,
    ) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def topics(cluster) -> Iterator[ClusterClient]:
    with ClusterClient(cluster.name_servers.split(",")) as client:
        yield client


@pytest.fixture(scope="session")
def letters(cluster) -> Iterator[DeadLetters]:
    with DeadLetters(cluster.name_servers.split(",")) as client:
        yield client


@pytest.fixture(scope="session")
def reader(cluster) -> Iterator[QueueReader]:
    with QueueReader(cluster.name_servers.split(",")) as client:
        yield client


@pytest.fixture(scope="session")
def worker(cluster) -> Iterator[Callable[[str], Worker]]:
    """The program of a language, started when it is first wanted."""
    running: dict[str, Worker] = {}

    def worker(language: str) -> Worker:
        if lacks := missing(language):
            pytest.skip(f"{lacks} is not on this machine")
        if language not in running:
            build(language)
            running[language] = Worker(language).__enter__()
            said = running[language].ask("connect", name_servers=cluster.name_servers.split(","))
            assert said == {"language": language}
        return running[language]

    yield worker
    for each in running.values():
        each.__exit__()
