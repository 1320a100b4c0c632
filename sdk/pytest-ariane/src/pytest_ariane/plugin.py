"""The fixtures. Nothing is imported or started before a test uses one of them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ariane_sdk import Tls
    from pytest_ariane.closing import Closing
    from pytest_ariane.cluster import InProcessCluster
    from pytest_ariane.failover import FailoverCluster
    from pytest_ariane.faults import Faults
    from pytest_ariane.forward_clock import ForwardClock

_numbers = itertools.count(1)

_CLIENTS_READ = ("TLS_CA", "TLS_CERTIFICATE", "TLS_KEY", "CREDENTIALS")
"""Variables by which clients choose how they connect, behind ``ARIANE_``."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take ``--ariane-closed``."""
    group = parser.getgroup("ariane")
    group.addoption(
        "--ariane-closed",
        action="store_true",
        default=os.environ.get("ARIANE_TEST_CLOSED", "") not in {"", "0"},
        help="close the clusters of the fixtures: TLS, users, rights (ARIANE_TEST_CLOSED=1)",
    )


@pytest.fixture(scope="session")
def _ariane_closing(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Closing | None]:
    """Certificates of closed clusters, and the environment that clients need; None if open."""
    with pytest.MonkeyPatch.context() as environment:
        # What a developer's shell says is about another cluster.
        for name in _CLIENTS_READ:
            environment.delenv(f"ARIANE_{name}", raising=False)
        if not request.config.getoption("--ariane-closed"):
            yield None
            return
        import ariane_sdk  # noqa: F401, PLC0415 - first: it sets gRPC up before gRPC is imported
        from pytest_ariane.closing import Closing  # noqa: PLC0415 - heavy

        closing = Closing(tmp_path_factory.mktemp("ariane-certificates"))
        for variable, value in closing.environment().items():
            environment.setenv(variable, value)
        yield closing


@pytest.fixture(scope="session")
def ariane_cluster(
    tmp_path_factory: pytest.TempPathFactory, _ariane_closing: Closing | None
) -> Iterator[InProcessCluster]:
    """A name server and a broker on 127.0.0.1, on free ports, for the whole session."""
    import ariane_sdk  # noqa: F401, PLC0415 - first: it sets gRPC up before gRPC is imported
    from pytest_ariane.cluster import InProcessCluster  # noqa: PLC0415 - heavy

    with InProcessCluster(tmp_path_factory.mktemp("ariane"), _ariane_closing) as cluster:
        yield cluster


@pytest.fixture
def ariane_name_servers(ariane_cluster: InProcessCluster) -> str:
    """What clients take as their first argument."""
    return ariane_cluster.name_servers


@pytest.fixture
def make_ariane_topic(ariane_cluster: InProcessCluster) -> Callable[..., str]:
    """Make topics that no other test knows: ``make_ariane_topic(queue_count=1, fifo=False)``."""

    def make(*, queue_count: int = 4, fifo: bool = False) -> str:
        topic = f"test-{next(_numbers)}"
        ariane_cluster.create_topic(topic, queue_count=queue_count, fifo=fifo)
        return topic

    return make


@pytest.fixture
def ariane_topic(make_ariane_topic: Callable[..., str]) -> str:
    """A topic with four queues that no other test knows."""
    return make_ariane_topic()


@pytest.fixture
def ariane_user(ariane_cluster: InProcessCluster) -> Callable[..., Tls]:
    """Users of a closed cluster: ``tls=ariane_user("shop", "PUBLISH topic orders")``."""
    return ariane_cluster.user


@pytest.fixture
def ariane_clock(ariane_cluster: InProcessCluster) -> ForwardClock:
    """The clock of the broker's timers, to be moved forward."""
    return ariane_cluster.clock


@pytest.fixture
def ariane_faults(ariane_cluster: InProcessCluster) -> Iterator[Faults]:
    """Switches for faults; when the test ends all are off, and the broker lives."""
    yield ariane_cluster.faults
    ariane_cluster.heal()


@pytest.fixture(scope="session")
def _ariane_failover_cluster(
    tmp_path_factory: pytest.TempPathFactory, _ariane_closing: Closing | None
) -> Iterator[FailoverCluster]:
    """A name server and two brokers of one name, in processes, for the whole session."""
    import ariane_sdk  # noqa: F401, PLC0415 - first: it sets gRPC up before gRPC is imported
    from pytest_ariane.failover import FailoverCluster  # noqa: PLC0415 - heavy

    with FailoverCluster(tmp_path_factory.mktemp("ariane-failover"), _ariane_closing) as cluster:
        yield cluster


@pytest.fixture
def ariane_failover(_ariane_failover_cluster: FailoverCluster) -> Iterator[FailoverCluster]:
    """A broker with a replica that can fail over; when the test ends both are in sync again."""
    yield _ariane_failover_cluster
    _ariane_failover_cluster.heal()
