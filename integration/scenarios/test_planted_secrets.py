"""Secrets in the settings of every service: nothing that a person reads or passes on has them."""

import asyncio
import json
import re
import subprocess
import sys
import tarfile
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

import ariane_wire
from ariane.common.v1.process_service_pb2 import ListProcessSettingsRequest
from ariane.common.v1.process_service_pb2_grpc import ProcessServiceStub
from ariane_admin.cli import main
from ariane_admin.service.settings import AdminSettings
from ariane_admin.terminal.exits import ExitStatus
from ariane_broker.settings import BrokerSettings
from ariane_filter.settings import FilterSettings
from ariane_gateway.settings import GatewaySettings
from ariane_namesrv.settings import NamesrvSettings
from ariane_servicekit import SettingsError, load_settings
from ariane_servicekit.errors import ProcessFailed
from ariane_servicekit.running.processes import ServiceProcess
from ariane_testkit.small_store import SMALL_STORE
from ariane_txn_checker.settings import CheckerSettings

SERVICES = (
    AdminSettings,
    BrokerSettings,
    CheckerSettings,
    FilterSettings,
    GatewaySettings,
    NamesrvSettings,
)
PLANTED = "hunter2-of-the-planted-secret"
LIKE_SECRETS = re.compile(r"url|token|webhook|pass|secret|credential")
SHOWN_OF_PROCESSES = ("cmdline", "environ")
PUBLIC = ("openid_keys_url", "openid_token_endpoint", "secret_key_file")
"""Addresses of a provider, whose pattern takes no password, and the path of a file."""


def secrets_of(settings):
    return [
        name
        for name, field in settings.model_fields.items()
        if "SecretStr" in str(field.annotation)
    ]


@pytest.mark.parametrize("settings", SERVICES, ids=lambda settings: settings.service_name)
def test_what_may_be_a_secret_is_one_and_no_error_shows_it(settings):
    named = {name for name in settings.model_fields if LIKE_SECRETS.search(name)}
    assert named <= {*secrets_of(settings), *PUBLIC}, named
    public = [name for name in PUBLIC if name in settings.model_fields]
    for name in (*secrets_of(settings), *public, "otlp_endpoint", "listen"):
        for value in (f"x://me:{PLANTED}@h", f"http://me:{PLANTED}@h", f"x:///?password={PLANTED}"):
            flag = f"--{name.replace('_', '-')}={value}"
            try:
                shown = str(load_settings(settings, [flag], {}).shown())
            except SettingsError as refused:
                shown = str(refused)
            assert PLANTED not in shown, flag


NEEDED = {
    AdminSettings: {},
    BrokerSettings: {"store_path": "store"},
    CheckerSettings: {"name_servers": ("127.0.0.1:1",)},
}


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (AdminSettings, "database_url"),
        (BrokerSettings, "replica_set_url"),
        (CheckerSettings, "database_url"),
    ],
)
def test_a_closed_service_keeps_nothing_in_a_database_that_it_calls_in_plain_text(settings, name):
    closed = {**NEEDED[settings], "access": "closed"}
    url = f"postgresql+psycopg://me:{PLANTED}@h/x"
    with pytest.raises(ValueError, match=f"{name}: .*sslmode=verify-full") as refused:
        settings(**closed, **{name: url})
    assert PLANTED not in refused.value.errors()[0]["msg"]
    for private in (f"{url}?sslmode=verify-full", f"postgresql+psycopg://me:{PLANTED}@127.0.0.1/x"):
        assert not settings(**closed, **{name: private}).plain_backends
    assert settings(**closed, **{name: url}, insecure_backends=True).plain_backends


@pytest.mark.parametrize("value", ["http://h:4317/?api-key={}", "me:{}@h:4317"])
def test_what_collectors_ask_for_is_not_taken_in_their_address(value):
    flag = f"--otlp-endpoint={value.format(PLANTED)}"
    with pytest.raises(SettingsError) as refused:
        load_settings(NamesrvSettings, [flag], {})
    assert PLANTED not in str(refused.value)


def database(path):
    """A database whose URL has a secret, which SQLite ignores."""
    return f"sqlite:///file:{path}?uri=true&password={PLANTED}"


def processes_of(pids):
    """These processes and all that they have started, by id."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # It has ended meanwhile.
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def listed(pids):
    """What lists of processes show of these and all that they have started."""
    ids = processes_of(pids)
    texts = [Path(f"/proc/{pid}/{name}").read_bytes() for pid in ids for name in SHOWN_OF_PROCESSES]
    ps = subprocess.run(["ps", "eww", *map(str, ids)], capture_output=True, check=True)
    return [text.decode("utf-8", "replace") for text in (*texts, ps.stdout)]


@asynccontextmanager
async def planted_services(folder, started=None, variables=None):
    """One process of each service, each with its secrets; gives three addresses.

    Args:
        folder: For all that they keep.
        started: Gets the process ids.
        variables: Of admin's environment alone.

    Returns:
        Those of the name server, the checker and admin.
    """
    async with AsyncExitStack() as running:

        async def start(name, module, *flags):
            pages = ("--metrics-listen", "127.0.0.1:0")
            process = ServiceProcess(
                name, module, (*flags, *pages), folder / "logs" / f"{name}.log"
            )
            await process.start()
            running.push_async_callback(process.stop)
            if started is not None:
                started.append(process.pid)
            return process.address

        name_server = await start("namesrv", "ariane_namesrv", "--data-path", str(folder / "n"))
        known = ("--name-servers", name_server)
        stored = ("--store-path", str(folder / "store"), *SMALL_STORE)
        in_set = ("--replica-set-url", database(folder / "set.db"))
        broker = await start("broker", "ariane_broker", *known, *stored, *in_set)
        checks = ("--database-url", database(folder / "c.db"))
        checker = await start("checker", "ariane_txn_checker", *known, *checks)
        beside = ("--broker", broker, "--data-path", str(folder / "f"))
        await start("filter", "ariane_filter", *beside, "--uploads", "any")
        await start("gateway", "ariane_gateway", *known)
        hook = ("--alert-webhook", f"http://127.0.0.1:1/hook/{PLANTED}", "--alert-disk-ratio", "0")
        trail = ("--database-url", database(folder / "a.db"), "--checkers", checker)
        sealed = ("--secret-key-file", str(folder / "secret.key"))
        hook += ("--console-listen", "127.0.0.1:0")
        with pytest.MonkeyPatch.context() as environment:
            for variable, value in (variables or {}).items():
                environment.setenv(variable, value)
            admin = await start("admin", "ariane_admin.service", *known, *trail, *hook, *sealed)
        yield name_server, checker, admin


def logged(log, event):
    """The lines of a log about an event."""
    lines = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
    return [line for line in lines if line["event"] == event]


def metrics_page(log):
    """What the process that writes a log tells Prometheus."""
    [told] = logged(log, "metrics_served")
    with urlopen(f"http://{told['address']}/metrics", timeout=60) as page:
        return page.read().decode()


async def settings_told(log):
    """The settings of the process that writes a log, as it tells whoever may ask."""
    [ready] = logged(log, "service_ready")
    async with ariane_wire.insecure_channel(ready["address"]) as channel:
        return str(
            await ProcessServiceStub(channel).ListProcessSettings(
                ListProcessSettingsRequest(), timeout=60
            )
        )


@pytest.mark.never_closed("it starts services of its own, in plain text")
async def test_no_log_list_error_metric_or_bundle_shows_a_secret(tmp_path, ariane, until, capfd):
    async with planted_services(tmp_path) as (name_server, checker, admin):

        async def brokers():
            return (await ariane(name_server, "broker", "list"))[1]

        await until(brokers)
        told = []
        for service, more in {
            "namesrv": (),
            "broker": (),
            "filter": (),
            "txn-checker": ("--checker", checker),
        }.items():
            status, settings = await ariane(name_server, "setting", "list", service, *more)
            assert status == ExitStatus.DONE
            told.append(json.dumps(settings))
        assert "replica_set_url" in told[1]
        assert "database_url" in told[3]
        url = f"postgresql://me:{PLANTED}@h/x"
        words = ("setting", "set", "broker", "replica_set_url", url, "--yes")
        status = await asyncio.to_thread(main, [*words, "--name-servers", name_server])
        assert status != ExitStatus.DONE
        told += capfd.readouterr()
        # A secret of a client of RocketMQ, taken once and refused once.
        keys = tmp_path / "keys"
        keys.write_text(f"shop:{PLANTED}\nnobody:{PLANTED}\n")
        for words in (
            ("user", "create", "shop"),
            ("credential", "import-rocketmq", str(keys)),
            ("credential", "list", "shop"),
            ("audit", "list", "-o", "json"),
        ):
            await asyncio.to_thread(main, [*words, "--admin", admin])
        told += capfd.readouterr()
        assert "rocketmq-key" in told[-2]
        logs = sorted((tmp_path / "logs").iterdir())
        assert len(logs) == len(SERVICES)
        pages = [await asyncio.to_thread(metrics_page, log) for log in logs]
        assert all("ariane_rpc" in page for page in pages)
        lists = [await settings_told(log) for log in logs]
        assert sum("database_url" in text for text in lists) == 2
        told += [*pages, *lists]
        given = [word for log in logs for word in ("--log", str(log))]
        bundle = tmp_path / "bundle.tar.gz"
        status, _ = await ariane(name_server, "debug", "bundle", "-f", str(bundle), *given)
        assert status == ExitStatus.DONE
    with tarfile.open(bundle) as archive:
        told += [archive.extractfile(one).read().decode() for one in archive if one.isfile()]
    told += [log.read_text() for log in logs]
    told.append((tmp_path / "a.db").read_bytes().decode("latin-1"))
    assert sum("service_ready" in text for text in told) >= len(SERVICES)
    assert [text for text in told if PLANTED in text] == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only there it can be hidden")
@pytest.mark.never_closed("it starts services of its own, in plain text")
async def test_no_list_of_processes_shows_a_secret(tmp_path, monkeypatch):
    # As everywhere but in tests, where services are forks whose arguments are others.
    start = staticmethod(asyncio.create_subprocess_exec)
    monkeypatch.setattr(ServiceProcess, "start_child", start)
    started, variables = [], {"ARIANE_ADMIN_OPENID_CLIENT_SECRET": PLANTED}
    async with planted_services(tmp_path, started, variables):
        shown = listed(started)
    assert len(started) == len(SERVICES)
    assert sum("--replica-set-url" in text for text in shown) >= 2, "what is looked at is there"
    assert [text for text in shown if PLANTED in text] == []


@pytest.mark.parametrize(
    ("module", "flag", "more"),
    [
        ("ariane_broker", "--replica-set-url", ("--store-path", "store")),
        ("ariane_txn_checker", "--database-url", ("--name-servers", "127.0.0.1:1")),
        ("ariane_admin.service", "--database-url", ("--name-servers", "127.0.0.1:1")),
    ],
)
async def test_a_start_that_is_refused_says_why_without_the_secret(
    tmp_path, monkeypatch, module, flag, more
):
    monkeypatch.chdir(tmp_path)
    for url in (
        f"mysql://me:{PLANTED}@127.0.0.1:1/x?password={PLANTED}",
        f"{PLANTED}@127.0.0.1",
    ):
        log = tmp_path / "refused.log"
        process = ServiceProcess("refused", module, (*more, flag, url), log)
        process.ready_s_max = 20.0
        with pytest.raises(ProcessFailed) as refused:
            await process.start()
        assert PLANTED not in str(refused.value) + log.read_text(), url
