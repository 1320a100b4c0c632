"""Settings of the process that runs the tests."""

import gc
import os
import re
import signal
import sys
import tempfile
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from ariane_servicekit.running.processes import ServiceProcess
from ariane_testkit.closed_clusters import close_all_clusters
from ariane_testkit.warm_starts import WarmStarts, can_start_warm

# Whoever runs without bytecode compiles all that is imported in every process that a test starts.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Children ignore what their parent does: tests of signals run under nohup and behind "&", too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


# How long an example takes, or making one, says how busy the machine is.
settings.register_profile("ariane", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "quick", settings.get_profile("ariane"), derandomize=True, max_examples=30
)

# What collecting makes lives until the end of the run: looking through it again and again for
# garbage would be a tenth of all work.
gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take ``--closed``: every cluster of processes speaks TLS and lets in who may come in."""
    parser.addoption("--closed", action="store_true", help="close the clusters of integration/")


def pytest_configure(config: pytest.Config) -> None:
    """Draw few examples in a quick run, always the same so that none fails by chance.

    And start services warm; other runs start each as users do.
    """
    if config.option.closed:
        folder = tempfile.TemporaryDirectory(prefix="ariane-closed-")
        config.add_cleanup(folder.cleanup)
        close_all_clusters(Path(folder.name))
    quick = config.option.markexpr == "not slow"
    settings.load_profile("quick" if quick else "ariane")
    if quick and can_start_warm():
        starts = WarmStarts()
        ServiceProcess.start_child = staticmethod(starts.start)
        config.add_cleanup(starts.close)
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        # In a fresh checkout each test file is compiled once, by whoever comes to it first.
        first = len(config.args) * int(worker["workerid"][2:]) // worker["workercount"]
        config.args = [*config.args[first:], *config.args[:first]]


SHARED_CLUSTERS = {
    "spark": re.compile(r"mark\.spark|\blocal_cluster\b"),
    "services/admin/tests": re.compile(r"^", re.MULTILINE),
    "sdk/python/tests": re.compile(
        r"^(?:async )?def \w+\([^)]*\b(?:fragile_)?cluster\b|\bpostgresql_url\b", re.MULTILINE
    ),
}
"""By folder: which of its files share what takes a session to start, as their text tells."""


def shared_scope(file: str, text: str) -> str:
    """What all files that share a cluster are called; any other file is by itself."""
    for folder, asks in SHARED_CLUSTERS.items():
        if file.startswith(f"{folder}/") and asks.search(text):
            return folder
    return file


@cache
def scope_of(path: Path, file: str) -> str:
    """What is called alike runs on one worker."""
    return shared_scope(file, path.read_text(encoding="utf-8"))


def scope_of_item(item: pytest.Item) -> str:
    """The scope of the file of a test."""
    return scope_of(item.path, item.nodeid.partition("::")[0])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put first what shares a cluster: these are the longest ways, and the rest runs beside.

    All processes have one order, whatever each has collected first. What cannot run closed says so.
    """
    for item in items if config.option.closed else ():
        for mark in item.iter_markers("never_closed"):
            item.add_marker(pytest.mark.skip(reason=f"not closed: {mark.args[0]}"))
    order = {folder: place for place, folder in enumerate(SHARED_CLUSTERS)}
    items.sort(key=lambda item: (order.get(scope_of_item(item), len(order)), str(item.path)))


shared_fixtures: list[tuple[pytest.FixtureDef[object], pytest.FixtureRequest]] = []


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Note what is made once for all tests of a folder."""
    made = yield
    if fixturedef.scope == "session" and fixturedef.baseid in SHARED_CLUSTERS:
        shared_fixtures.append((fixturedef, request))
    return made


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End it with the last of them: processes that idle take processor time from other tests."""
    if nextitem is not None and scope_of_item(item) != scope_of_item(nextitem):
        while shared_fixtures:
            fixturedef, request = shared_fixtures.pop()
            fixturedef.finish(request)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Look for garbage from here on, and only among what the tests make."""
    gc.freeze()
    gc.enable()


class FileScheduling(LoadScopeScheduling):  # type: ignore[misc]  # untyped
    """A file to a worker, which starts its clusters once; all files that share one to one worker.

    By their text, because marks of pytest-xdist do not reach this process with every pytest.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return scope_of(self.config.rootpath / file, file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling:
    """Say which tests one worker runs."""
    return FileScheduling(config, log)
