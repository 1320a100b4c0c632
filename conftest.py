"""Settings of the process that runs the tests, before any test imports gRPC."""

import gc
import os
import re
import signal
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# As ``ariane_sdk`` says it for applications; here services are imported before the SDK, and gRPC
# itself before both.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")

# Whoever runs without bytecode compiles all that is imported in every process that a test starts.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Children ignore what their parent does: tests of signals run under nohup and behind "&", too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


# How long an example takes, or making one, says how busy the machine is.
settings.register_profile("ariane", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ariane")

# What collecting makes lives until the end of the run: looking through it again and again for
# garbage would be a tenth of all work.
gc.disable()

SHARED_CLUSTERS = {
    "spark": re.compile(r"mark\.spark|\blocal_cluster\b"),
    "services/admin/tests": re.compile(r"^", re.MULTILINE),
    "sdk/python/tests": re.compile(r"^(?:async )?def \w+\([^)]*\bcluster\b", re.MULTILINE),
}
"""By folder: which of its files share what takes a session to start, as their text tells."""


def shared_scope(file: str, text: str) -> str:
    """What all files that share a cluster are called; any other file is by itself."""
    for folder, asks in SHARED_CLUSTERS.items():
        if file.startswith(f"{folder}/") and asks.search(text):
            return folder
    return file


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put first what shares a cluster: these are the longest ways, and the rest runs beside."""

    @cache
    def place(path: Path) -> int:
        file = path.relative_to(config.rootpath).as_posix()
        scope = shared_scope(file, path.read_text(encoding="utf-8"))
        return [*SHARED_CLUSTERS, scope].index(scope)

    items.sort(key=lambda item: place(item.path))


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
        return self._scope_of(nodeid.partition("::")[0])

    @cache  # noqa: B019 - there is one for the whole run.
    def _scope_of(self, file: str) -> str:
        return shared_scope(file, (self.config.rootpath / file).read_text(encoding="utf-8"))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling:
    """Say which tests one worker runs."""
    return FileScheduling(config, log)
