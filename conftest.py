"""Settings of the process that runs the tests, before any test imports gRPC."""

import os
import signal
import sys
from functools import cache

import pytest
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put Spark's tests first: they have the longest way, and other workers run the rest beside."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)


class FileScheduling(LoadScopeScheduling):  # type: ignore[misc]  # untyped
    """A file to a worker, which starts its clusters once; all files with Spark's session to one.

    By their names, because marks of pytest-xdist do not reach this process with every pytest.
    """

    def _split_scope(self, nodeid: str) -> str:
        return self._scope_of(nodeid.partition("::")[0])

    @cache  # noqa: B019 - there is one for the whole run.
    def _scope_of(self, file: str) -> str:
        text = (self.config.rootpath / file).read_text(encoding="utf-8")
        return "spark" if "mark.spark" in text else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling:
    """Say which tests one worker runs."""
    return FileScheduling(config, log)
