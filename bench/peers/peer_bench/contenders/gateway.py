"""RocketMQ 5's Java client on our gateway, and the same client on RocketMQ's proxy.

Each is a process of its own before a broker, and all is as it comes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from ariane_sdk.sync import ClusterClient
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from ariane_testkit.free_ports import free_port
from peer_bench.contender import DriverContender
from peer_bench.contenders import ours
from peer_bench.contenders.rocketmq import rocketmq
from peer_bench.contenders.rocketmq.admin import RocketmqAdmin
from peer_bench.drivers import Driver
from peer_bench.errors import PeerUnavailable
from peer_bench.fetched.maven import class_path, driver_path, java_version
from peer_bench.loads import Leg, Load
from peer_bench.peers import Part, Peer, Target
from peer_bench.servers import server

CLIENT_VERSION: Final = "5.2.0"
CLIENT_HEAP: Final = "1g"
PROXY_HEAP: Final = "1g"
QUEUES: Final = 4
CLUSTER: Final = "DefaultCluster"
SYNCER_TOPIC: Final = "DefaultHeartBeatSyncerTopic"
"""By which proxies tell each other of clients: one that cannot make it ends at its start."""
PROXY_STARTS_MAX: Final = 3
_SETTINGS: Final = {"queues": QUEUES, "client heap": CLIENT_HEAP, "receivers": 4, "received": 32}


class GatewayContender(DriverContender):
    """Whose client is RocketMQ 5's, which makes no topics."""

    make_topic: Callable[[str], None]
    """Makes a topic before anything is sent to it."""

    _made: str = ""

    def produce(self, load: Load) -> Leg:
        """Send; the topic is made by the first leg."""
        if load.topic != self._made:
            self.make_topic(load.topic)
            self._made = load.topic
        return super().produce(load)


class Front(NamedTuple):
    """What clients call, before servers of its own."""

    endpoint: str
    """Its address."""
    pid: int
    """Its process."""
    server_pids: list[int]
    """The servers behind it."""
    make_topic: Callable[[str], None]
    """Makes a topic there."""


@contextmanager
def our_gateway(data_path: Path) -> Iterator[Front]:
    """Run name server, broker and gateway of ours."""
    with LocalCluster(data_path) as cluster:
        flags = ("--name-servers", cluster.name_servers)
        gateway = ServiceProcess("gateway", "ariane_gateway", flags, data_path / "gateway.log")
        cluster.call_blocking(gateway.start)
        try:
            with ClusterClient(cluster.name_servers.split(",")) as client:
                yield Front(
                    gateway.address,
                    gateway.pid,
                    [process.pid for process in cluster.processes],
                    lambda name: client.create_topic(name, queue_count=QUEUES),
                )
        finally:
            cluster.call_blocking(gateway.stop)


@contextmanager
def their_proxy(data_path: Path) -> Iterator[Front]:
    """Run name server, broker and proxy of RocketMQ.

    Raises:
        PeerUnavailable: Something cannot be had or started here.
    """
    jars = class_path("rocketmq")
    data_path.mkdir(parents=True, exist_ok=True)
    with rocketmq.servers(jars, data_path, flush_mode="async") as ((name_server, broker), pids):
        admin = RocketmqAdmin(jars, data_path, name_server, broker)
        # A broker has a topic of its cluster's name, by which a proxy finds it.
        admin.wait_for_route(CLUSTER)
        admin.make_topic(SYNCER_TOPIC, 1)
        with _proxy(jars, data_path, name_server) as (endpoint, pid):
            yield Front(endpoint, pid, pids, lambda name: admin.make_topic(name, QUEUES))


@contextmanager
def running(data_path: Path) -> Iterator[GatewayContender]:
    """Run name server, broker and gateway of ours, and the client.

    Raises:
        PeerUnavailable: The client cannot be had here.
    """
    with our_gateway(data_path) as front, _driver(data_path, front.endpoint) as driver:
        contender = GatewayContender(
            ours.NAME,
            driver,
            [*front.server_pids, front.pid],
            settings=_SETTINGS,
            versions={**ours.our_versions(), "rocketmq-client-java": CLIENT_VERSION},
        )
        contender.make_topic = front.make_topic
        yield contender


@contextmanager
def proxied(data_path: Path) -> Iterator[GatewayContender]:
    """Run name server, broker and proxy of RocketMQ, and the client.

    Raises:
        PeerUnavailable: Something cannot be had or started here.
    """
    with their_proxy(data_path) as front, _driver(data_path, front.endpoint) as driver:
        contender = GatewayContender(
            f"{rocketmq.NAME} {rocketmq.VERSION}, proxy",
            driver,
            [*front.server_pids, front.pid],
            settings={**_SETTINGS, "server heap": rocketmq.SERVER_HEAP, "proxy heap": PROXY_HEAP},
            versions={
                "rocketmq": rocketmq.VERSION,
                "rocketmq-client-java": CLIENT_VERSION,
                "java": java_version(),
            },
        )
        contender.make_topic = front.make_topic
        yield contender


@contextmanager
def _proxy(jars: str, home: Path, name_server: str) -> Iterator[tuple[str, int]]:
    """Run the proxy in cluster mode; yields its endpoint and its process id.

    Raises:
        PeerUnavailable: It ended at each of its starts.
    """
    port = free_port()
    settings = {
        "proxyMode": "CLUSTER",
        "rocketMQClusterName": CLUSTER,
        "proxyClusterName": CLUSTER,
        "heartbeatSyncerTopicName": SYNCER_TOPIC,
        "namesrvAddr": name_server,
        "localServeAddr": "127.0.0.1",
        "grpcServerPort": port,
        "remotingListenPort": free_port(),
        # Else a leg would wait for receives that are held when its last message has come.
        "grpcClientConsumerMinLongPollingTimeoutMillis": 1000,
    }
    path = home / "proxy.json"
    path.write_text(json.dumps(settings))
    command = ["java", f"-Xms{PROXY_HEAP}", f"-Xmx{PROXY_HEAP}", f"-Duser.home={home}", "-cp", jars]
    command += ["org.apache.rocketmq.proxy.ProxyStartup", "-pc", str(path)]
    environment = {"ROCKETMQ_HOME": str(home), "HOME": str(home)}
    with ExitStack() as stack:
        for start in range(1, PROXY_STARTS_MAX + 1):
            running = server(
                "rocketmq-proxy", command, port=port, home=home, environment=environment
            )
            try:
                process_id = stack.enter_context(running)
                break
            except PeerUnavailable:
                if start == PROXY_STARTS_MAX:
                    raise
        yield f"127.0.0.1:{port}", process_id


def _driver(home: Path, endpoint: str) -> Driver:
    command = ["java", f"-Xms{CLIENT_HEAP}", f"-Xmx{CLIENT_HEAP}", f"-Duser.home={home}"]
    command += ["-cp", driver_path("gateway"), "GatewayDriver", endpoint]
    return Driver("RocketMQ 5's client", command, home / "driver.log")


PEER: Final = Peer(
    key="rocketmq-proxy",
    running=proxied,
    ours=running,
    # The client is compiled over its first 50,000 messages, and is slow until then.
    warm_up_s=60.0,
    our_warm_up_s=60.0,
    start_s=25.0,
    parts={
        "gateway-1": Part(Target(0.5, 1.0), consume="receive"),
        "gateway-64": Part(
            Target(0.5, 1.0), consume="receive", consumed={"receive": Target(0.5, 1.0)}
        ),
    },
)
