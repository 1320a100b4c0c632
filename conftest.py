"""Settings of the process that runs the tests, before any test imports gRPC."""

import os
import signal

import pytest

# As ``ariane_sdk`` says it for applications; here services are imported before the SDK, and gRPC
# itself before both.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")

# Children ignore what their parent does: tests of signals run under nohup and behind "&", too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests one worker runs: those of a file, and all that share the Spark session.

    The session is first: it has the longest way, and the other workers run the rest beside it.
    """
    for item in items:
        group = "spark" if item.get_closest_marker("spark") else item.path.as_posix()
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
