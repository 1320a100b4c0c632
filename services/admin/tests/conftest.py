"""A cluster for all tests that break nothing, and commands as a person types them."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from contextlib import AsyncExitStack, suppress
from html import unescape

import httpx
import pytest
from grpc import aio
from grpc.aio import AioRpcError
from structlog.testing import capture_logs

import ariane_wire
from ariane.admin.v1 import access_policy_service_pb2 as policy_pb
from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1 import user_service_pb2 as user_pb
from ariane.admin.v1.access_policy_service_pb2_grpc import AccessPolicyServiceStub
from ariane.admin.v1.audit_service_pb2_grpc import AuditServiceStub
from ariane.admin.v1.user_service_pb2_grpc import UserServiceStub
from ariane_admin.asking.changing import changes
from ariane_admin.asking.connection import DEFAULT_ADMIN
from ariane_admin.cli import main
from ariane_admin.database import SCHEMA
from ariane_admin.service.app import AdminApp
from ariane_admin.service.settings import AdminSettings
from ariane_admin.terminal.exits import ExitStatus
from ariane_broker.app import compose as compose_broker
from ariane_broker.settings import BrokerSettings
from ariane_namesrv.app import NamesrvApp
from ariane_namesrv.settings import NamesrvSettings
from ariane_sdk import Tls
from ariane_sdk.errors import ArianeError
from ariane_sdk.sync import ClusterClient
from ariane_servicekit import Address, SystemClock, serving
from ariane_servicekit.database import Database
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from ariane_testkit.access_rules import entries_of
from ariane_testkit.certificates import ClusterCertificates
from ariane_testkit.java_names import JAVA_GROUP, JAVA_TOPIC, leave_java_names
from ariane_testkit.postgresql import empty_database, postgresql_or_skip
from ariane_testkit.small_store import SMALL_STORE

# Groups of `config/subscriptionGroup.json` of a Java broker, and one that only Java's rules allow.
GROUPS_OF_JAVA = ("CID_ONSAPI_OWNER", "SELF_TEST_C_GROUP", "TOOLS_CONSUMER", JAVA_GROUP)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Two name servers and two brokers, the first with what a Java broker has left."""
    folder = tmp_path_factory.mktemp("cluster")
    leave_java_names(folder / "broker-a", [JAVA_TOPIC], GROUPS_OF_JAVA)
    with LocalCluster(folder, brokers=2, name_servers=2, extra_broker_args=SMALL_STORE) as running:
        yield running


@pytest.fixture(autouse=True)
def nobody_at_the_usual_place(monkeypatch):
    """An admin that this machine happens to run serves another cluster than the tests'."""
    listens = changes._listens

    async def but_not_there(address):
        return address != DEFAULT_ADMIN and await listens(address)

    monkeypatch.setattr(changes, "_listens", but_not_there)


@pytest.fixture
def ariane(cluster, capfd, monkeypatch):
    """Run a command, and return what it wrote: results, or the error where one is expected."""
    monkeypatch.setenv("ARIANE_NAME_SERVERS", cluster.name_servers)

    def run(*arguments, status=ExitStatus.DONE):
        capfd.readouterr()
        ended = main(arguments)
        out, err = capfd.readouterr()
        assert ended == status, err
        return out if status is ExitStatus.DONE else err

    return run


@pytest.fixture
def ariane_json(ariane):
    """Run a command with ``-o json``, and return what it wrote as an object."""

    def run(*arguments):
        return json.loads(ariane(*arguments, "-o", "json"))

    return run


@pytest.fixture
def lines(tmp_path):
    """Write a file of lines."""

    def write(*texts):
        path = tmp_path / "lines"
        path.write_text("".join(f"{text}\n" for text in texts))
        return str(path)

    return write


@pytest.fixture(scope="session")
def postgresql_url(request):
    with postgresql_or_skip(request.config) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request, tmp_path):
    """An empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/admin.db"
        return
    with empty_database(request.getfixturevalue("postgresql_url"), "admin") as url:
        yield url


@pytest.fixture
async def database(database_url):
    """A database of this version."""
    opened = Database(database_url, SCHEMA, SystemClock())
    await opened.open(wait_s=0)
    yield opened
    opened.close()


@pytest.fixture
async def admin(request, cluster, tmp_path):
    """Admin of the cluster, inside the test's process; its channel.

    A test of another cluster has a fixture ``own_cluster``.
    """
    if "own_cluster" in request.fixturenames:
        cluster = request.getfixturevalue("own_cluster")
    settings = AdminSettings(
        listen=Address("127.0.0.1", 0),
        console_listen=Address("127.0.0.1", 0),
        name_servers=cluster.name_servers,
        data_path=tmp_path / "admin",
    )
    made = []

    def compose(given, stop):
        made.append(AdminApp(given, stop))
        return made[0]

    async with (
        serving(settings, compose) as address,
        aio.insecure_channel(str(address)) as channel,
    ):
        channel.console_url = f"http://{made[0].console_address}"
        yield channel


@pytest.fixture
def entries(admin):
    """The trail, oldest first."""

    async def read(**wanted):
        request = audit_pb.ListAuditEntriesRequest(**wanted)
        answer = await AuditServiceStub(admin).ListAuditEntries(request)
        return list(reversed(answer.entries))

    return read


@pytest.fixture
def admin_beside(cluster, tmp_path, monkeypatch):
    """Admin of the cluster for commands, inside the test's process; its address."""
    settings = AdminSettings(
        listen=Address("127.0.0.1", 0),
        console_listen=Address("127.0.0.1", 0),
        name_servers=cluster.name_servers,
        data_path=tmp_path / "admin",
        secret_key_file=tmp_path / "secret.key",
    )
    life = AsyncExitStack()

    async def start():
        return str(await life.enter_async_context(serving(settings, AdminApp)))

    # What it logs would be among what commands write.
    with capture_logs():
        address = cluster.call_blocking(start)
        monkeypatch.setenv("ARIANE_ADMIN", address)
        yield address
        cluster.call_blocking(life.aclose)


@pytest.fixture
def admin_process(cluster, tmp_path, monkeypatch):
    """Admin of the cluster in a process of its own, and its database."""
    process = ServiceProcess(
        "admin",
        "ariane_admin.service",
        (
            *("--data-path", str(tmp_path / "admin"), "--name-servers", cluster.name_servers),
            *("--console-listen", "127.0.0.1:0"),
        ),
        tmp_path / "admin.log",
    )
    cluster.call_blocking(process.start)
    monkeypatch.setenv("ARIANE_ADMIN", process.address)
    yield process, tmp_path / "admin" / "admin.db"
    assert cluster.call_blocking(process.stop) == 0


@pytest.fixture(scope="module")
def filter_servers(cluster, tmp_path_factory):
    """One beside each broker; ended when the module's tests are."""
    folder = tmp_path_factory.mktemp("filters")
    processes = [
        ServiceProcess(
            f"filter-{broker.name}",
            "ariane_filter",
            (
                *("--broker", broker.address, "--data-path", str(folder / broker.name)),
                *("--uploads", "any"),
            ),
            folder / f"{broker.name}.log",
        )
        for broker in cluster.brokers
    ]
    for process in processes:
        cluster.call_blocking(process.start)
    yield processes
    for process in processes:
        cluster.call_blocking(process.stop)


@pytest.fixture
def ready(filter_servers, cluster):
    """Both stand in the routes."""
    with ClusterClient(cluster.name_servers) as client:
        deadline = time.monotonic() + 60
        while not all(broker.filter_servers for broker in client.list_brokers()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    return filter_servers


class Browser(httpx.AsyncClient):
    """The console as a browser without scripts has it."""

    def hidden(self, page):
        """The hidden fields of a page's last form."""
        form = page.text.rpartition("<form")[2]
        found = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', form)
        return {name: unescape(value) for name, value in found}

    async def token(self):
        return self.hidden(await self.get("/topics"))["csrf"]

    async def sign_in(self, way, **fields):
        """Send a form of the page where people sign in."""
        given = self.hidden(await self.get("/sign-in"))
        return await self.post(f"/sign-in/{way}", data={**given, **fields})

    async def change(self, path, **fields):
        """Send a form, answer the question that comes, and go where the console leads."""
        question = await self.post(path, data={"csrf": await self.token(), **fields})
        assert "Are you sure?" in question.text, question.text
        assert re.search("In cluster (DefaultCluster|main): ", question.text)
        return await self.post(path, data=self.hidden(question), follow_redirects=True)


@pytest.fixture
async def browser(admin):
    async with Browser(base_url=admin.console_url, timeout=60) as client:
        yield client


class ClosedCluster:
    """Addresses, and what a user needs to reach them."""

    def __init__(self, certificates, name_server, broker, admin, stack, app):
        self.certificates = certificates
        self.name_server = name_server
        self.broker = broker
        self.app = app
        self._admin = admin
        self._stack = stack

    @property
    def address(self):
        """Of admin."""
        return self._admin

    def tls(self, user):
        certificate, key = self.certificates.user(user)
        return Tls(ca=self.certificates.path / "members.pem", certificate=certificate, key=key)

    async def admin(self, user):
        """A channel of a user to admin."""
        return await self.channel(*self.certificates.user(user))

    async def channel(self, certificate, key):
        """A channel to admin of whoever has a certificate."""
        context = ariane_wire.client_tls(
            self.certificates.path / "members.pem", certificate=certificate, key=key
        )
        return await self._stack.enter_async_context(
            ariane_wire.secure_channel(self._admin, context)
        )

    async def make_user(self, name, *entries):
        """A user with a policy."""
        root = await self.admin("root")
        user = user_pb.User(user=name, enabled=True)
        await UserServiceStub(root).CreateUser(user_pb.CreateUserRequest(user=user))
        policy = policy_pb.AccessPolicy(user=name, entries=entries_of("; ".join(entries)))
        await AccessPolicyServiceStub(root).UpdateAccessPolicy(
            policy_pb.UpdateAccessPolicyRequest(policy=policy)
        )

    async def visitor(self, user=None):
        """A browser at the console; one of a user shows his certificate."""
        context = ssl.create_default_context(cafile=self.certificates.path / "members.pem")
        if user is not None:
            context.load_cert_chain(*self.certificates.user(user))
        url = f"https://{self.app.console_address}"
        return await self._stack.enter_async_context(
            Browser(base_url=url, verify=context, timeout=60)
        )

    async def until(self, work, wanted):
        """Repeat until the rules are everywhere: some seconds at most."""
        async with asyncio.timeout(30):
            while True:
                with suppress(AioRpcError, ArianeError):
                    if await work() == wanted:
                        return
                await asyncio.sleep(0.1)


@pytest.fixture
async def closed(request, tmp_path):
    """A name server, a broker and admin with its console.

    A test has further settings of admin in a fixture ``admin_settings``.
    """
    has_own = "admin_settings" in request.fixturenames
    certificates = ClusterCertificates(tmp_path / "certificates")
    common = {"access": "closed", "super_users": ("root",), "listen": Address("127.0.0.1", 0)}
    async with AsyncExitStack() as stack:
        name_server = await stack.enter_async_context(
            serving(NamesrvSettings(**common, **certificates.member("namesrv", "n1")), NamesrvApp)
        )
        broker = BrokerSettings(
            store_path=tmp_path / "store",
            cluster_name="main",
            broker_name="broker-a",
            name_servers=(str(name_server),),
            segment_bytes=6 << 20,
            consume_queue_entries=1000,
            index_slots=1000,
            index_items=4000,
            grace_s=0.1,
            **common,
            **certificates.member("broker", "broker-a"),
        )
        broker_address = await stack.enter_async_context(serving(broker, compose_broker))
        settings = AdminSettings(
            data_path=tmp_path / "admin",
            name_servers=(str(name_server),),
            console_listen=Address("127.0.0.1", 0),
            **common,
            **certificates.member("admin", "a1"),
            **(request.getfixturevalue("admin_settings") if has_own else {}),
        )
        made = []

        def compose_admin(given, stop):
            made.append(AdminApp(given, stop))
            return made[0]

        admin = await stack.enter_async_context(serving(settings, compose_admin))
        yield ClosedCluster(
            certificates, str(name_server), broker_address, str(admin), stack, made[0]
        )


@pytest.fixture
def logged():
    """What is logged by loggers that are made in the test."""
    with capture_logs() as logged:
        yield logged
