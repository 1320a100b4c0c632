"""Each client on a cluster that is closed: TLS, certificates, keys, and routes that lie."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from brief_login_broker import LIFE_MS
from languages import COMMANDS, Refused, Worker, build, missing

import ariane_wire
from ariane.namesrv.v1.route_pb2 import BrokerRoute, Route, TopicPermission
from ariane.namesrv.v1.route_service_pb2 import GetRouteResponse
from ariane_sdk import Tls
from ariane_sdk.sync import ClusterClient
from ariane_servicekit.running.local_certificates import LocalCertificates
from ariane_servicekit.running.processes import LocalCluster
from ariane_servicekit.security.caller import MemberKind
from ariane_testkit.user_keys import UserKeys

TOPIC = "secrets"
PATIENCE = 20

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> UserKeys:
    return UserKeys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def key(keys) -> Path:
    """A private key of anna."""
    path: Path = keys.file_of("anna")
    return path


@pytest.fixture(scope="module")
def cluster(key, keys, tmp_path_factory) -> Iterator[LocalCluster]:
    path = tmp_path_factory.mktemp("closed")
    with pytest.MonkeyPatch.context() as environment:
        for name, value in keys.environment().items():
            environment.setenv(name, value)
        with LocalCluster(path, checkers=1, tls=True, super_users=("anna",)) as cluster:
            yield cluster


@pytest.fixture(scope="module")
def certificates(cluster) -> LocalCertificates:
    assert cluster.certificates is not None
    return cluster.certificates


@pytest.fixture(scope="module", autouse=True)
def topic(cluster, certificates) -> None:
    tls = Tls(**certificates.user("anna"))
    with ClusterClient(cluster.name_servers.split(","), tls=tls) as client:
        client.create_topic(TOPIC, queue_count=2)


@pytest.fixture(scope="module")
def languages() -> list[str]:
    here = [each for each in COMMANDS if each != "python" and not missing(each)]
    if not here:
        pytest.skip("no other language is on this machine")
    for language in here:
        build(language)
    return here


def in_all(languages: list[str], play: Callable[[str], None]) -> None:
    with ThreadPoolExecutor() as pool:
        for played in [pool.submit(play, language) for language in languages]:
            played.result()


def environment(certificates: LocalCertificates, user: str = "") -> dict[str, str]:
    """TLS, and the certificate of a user, if one is named."""
    files = certificates.user(user or "anna")
    named = {"ARIANE_TLS_CA": str(files["ca"])}
    if user:
        named |= {
            "ARIANE_TLS_CERTIFICATE": str(files["certificate"]),
            "ARIANE_TLS_KEY": str(files["key"]),
        }
    return named


def message(body: str) -> dict[str, Any]:
    return {
        **dict.fromkeys(("tag", "group", "id"), ""),
        "topic": TOPIC,
        "keys": [],
        "properties": {},
        "body": base64.b64encode(body.encode()).decode(),
    }


def send(worker: Worker, body: str) -> None:
    worker.ask("send", messages=[message(body)])


def receive(worker: Worker, wanted: list[str]) -> None:
    """Receive just these, in whichever order, and acknowledge them."""
    group = f"readers-{worker.language}"
    found: list[str] = []
    for _ in range(PATIENCE):
        come = worker.ask("receive", topic=TOPIC, group=group, tags=worker.language, wait_ms=2000)
        found += [base64.b64decode(each["body"]).decode() for each in come]
        if come:
            worker.ask("ack", numbers=[each["number"] for each in come])
        if len(found) >= len(wanted):
            break
    assert sorted(found) == wanted


def test_a_key_opens_a_closed_cluster_also_after_a_restart(cluster, certificates, languages, key):
    named = environment(certificates) | {"ARIANE_CREDENTIALS": str(key)}
    servers = cluster.name_servers.split(",")
    workers = {each: Worker(each, environment=named) for each in languages}

    def own(worker: Worker, *bodies: str) -> None:
        for body in bodies:
            worker.ask("send", messages=[message(body) | {"tag": worker.language}])

    def before(language: str) -> None:
        worker = workers[language]
        worker.ask("connect", name_servers=servers)
        own(worker, "first")
        receive(worker, ["first"])
        worker.ask("transactions", group=f"tellers-{language}", topic=TOPIC)
        half = message("half") | {"tag": language}
        begun = worker.ask("begin", group=f"tellers-{language}", messages=[half])
        worker.ask("commit", numbers=[begun["number"]])
        receive(worker, ["half"])

    def after(language: str) -> None:
        # The broker knows of no login any more.
        own(workers[language], "second", "third")
        receive(workers[language], ["second", "third"])

    try:
        in_all(languages, before)
        [broker] = cluster.brokers
        cluster.call_blocking(broker.stop)
        cluster.call_blocking(broker.start)
        in_all(languages, after)
    finally:
        for worker in workers.values():
            worker.end()


def test_a_certificate_opens_admin_and_the_replies_to_ones_own_requests(languages, tmp_path):
    with LocalCluster(tmp_path, admin=True, tls=True, super_users=("anna",)) as cluster:
        assert cluster.certificates is not None
        named = environment(cluster.certificates, "anna")
        admin = cluster.admins[0].address

        def play(language: str) -> None:
            topic = f"questions-to-{language}"
            with Worker(language, environment=named) as worker:
                worker.ask("connect", name_servers=cluster.name_servers.split(","))
                worker.ask("administer", address=admin, act="create_topic", topic=topic)
                worker.ask("answer", topic=topic, group=topic)
                question = message("hello") | {"topic": topic}
                said = worker.ask("request", messages=[question], timeout_ms=60_000)
                worker.ask("stop")
            assert said == {"body": base64.b64encode(b"olleh").decode()}

        in_all(languages, play)


def test_a_login_is_renewed_on_its_connection(key, keys, languages, tmp_path, monkeypatch):
    """Of Go and Java; TypeScript has a session of its own, which it begins anew in time."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    for name, value in keys.environment().items():
        monkeypatch.setenv(name, value)
    closed = {"tls": True, "super_users": ("anna",), "broker_module": "brief_login_broker"}
    with LocalCluster(tmp_path, **closed) as cluster:
        certificates = cluster.certificates
        assert certificates is not None
        tls = Tls(**certificates.user("anna"))
        with ClusterClient(cluster.name_servers.split(","), tls=tls) as client:
            client.create_topic(TOPIC, queue_count=1)
        named = environment(certificates) | {"ARIANE_CREDENTIALS": str(key)}

        def play(language: str) -> None:
            with Worker(language, environment=named) as worker:
                worker.ask("connect", name_servers=cluster.name_servers.split(","))
                end = time.monotonic() + 4 * LIFE_MS / 1000
                while time.monotonic() < end:
                    send(worker, "mine")
                    time.sleep(0.3)

        in_all(languages, play)
        log = cluster.brokers[0].log_path.read_text()
    # A login that is not renewed takes its connection with it.
    assert "connections_ended" not in log
    assert "login_refused" not in log


def test_nothing_secret_goes_in_plain_text_to_another_machine(cluster, languages, key):
    def play(language: str) -> None:
        with Worker(language, environment={"ARIANE_CREDENTIALS": str(key)}) as worker:
            worker.ask("connect", name_servers=["192.0.2.1:9876"])
            with pytest.raises(Refused, match="plain text"):
                send(worker, "mine")

    in_all(languages, play)


def refused(worker: Worker, text: str) -> None:
    """Send, and be refused so: one that is slow at its start may try in vain before."""
    for _ in range(PATIENCE):
        with pytest.raises(Refused) as found:
            send(worker, "mine")
        if text in str(found.value):
            return
    raise found.value


@contextmanager
def liar(cluster: LocalCluster, certificates: LocalCertificates) -> Iterator[str]:
    """A name server that takes broker-a for broker-z; its address."""
    flags = certificates.flags(MemberKind.NAME_SERVER, "liar")
    route = BrokerRoute(broker_name="broker-z", addresses={0: cluster.brokers[0].address})
    route.permission = TopicPermission.TOPIC_PERMISSION_READ_WRITE
    route.write_queue_count = route.read_queue_count = 1
    answer = GetRouteResponse(route=Route(brokers=[route])).SerializeToString()

    async def say(_request: Any, _context: Any) -> bytes:
        return answer

    async def serve() -> tuple[Any, str]:
        server = ariane_wire.server()
        handlers = {"GetRoute": grpc.unary_unary_rpc_method_handler(say)}
        server.add_registered_method_handlers("ariane.namesrv.v1.RouteService", handlers)
        context = ariane_wire.server_tls(flags[1], flags[3])
        port = server.add_secure_port("127.0.0.1:0", context)
        await server.start()
        return server, f"127.0.0.1:{port}"

    server, address = cluster.call_blocking(serve)
    yield address
    cluster.call_blocking(lambda: server.stop(None))


def test_a_certificate_opens_it_and_a_route_that_lies_gains_nothing(
    cluster, certificates, languages
):
    servers = cluster.name_servers.split(",")
    broker = str(cluster.brokers[0].address)

    def play(language: str) -> None:
        # Long enough for a connection, and for no more: what has no cure is tried all the time.
        named = environment(certificates, "anna")
        with Worker(language, call_ms=4000, environment=named) as worker:
            worker.ask("connect", name_servers=[false])
            refused(worker, "of broker broker-a, not of broker broker-z")
            worker.ask("connect", name_servers=[broker])
            refused(worker, "of broker broker-a, not of namesrv")
            worker.ask("connect", name_servers=servers, token="a.token.of-nobody")
            refused(worker, "[CREDENTIALS_INVALID]")
            worker.ask("connect", name_servers=servers)
            send(worker, "mine")

    with liar(cluster, certificates) as false:
        in_all(languages, play)
