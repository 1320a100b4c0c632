"""What is said to gRPC is said before it is imported, and it understands it."""

import os
import subprocess
import sys

import pytest

from ariane_servicekit.running.before_grpc import EXPERIMENTS

_LOOK = """
import importlib, os, sys
class Look:
    said = None
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "grpc":
            cls.said = cls.said or os.environ.get("GRPC_EXPERIMENTS", "nothing")
sys.meta_path.insert(0, Look)
importlib.import_module(sys.argv[1])
import grpc
grpc.insecure_channel("127.0.0.1:1").close()
print(Look.said)
"""

# All services come to gRPC by servicekit.
MODULES = (
    "ariane_broker.__main__",
    pytest.param("ariane_namesrv.__main__", marks=pytest.mark.slow),
    pytest.param("ariane_txn_checker.__main__", marks=pytest.mark.slow),
    "ariane_servicekit.running.launcher",
    "ariane_sdk",
)


def run(module: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if name != "GRPC_EXPERIMENTS"}
    return subprocess.run(
        [sys.executable, "-c", _LOOK, module],
        env=own | environment,
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize("module", MODULES)
def test_grpc_hears_the_choice_when_it_is_imported(module: str) -> None:
    ended = run(module, {})
    assert ended.stdout.strip() == EXPERIMENTS
    # gRPC complains there of what it does not know.
    assert not ended.stderr


@pytest.mark.parametrize("module", ["ariane_servicekit", "ariane_sdk"])
def test_what_the_environment_says_goes_first(module: str) -> None:
    assert run(module, {"GRPC_EXPERIMENTS": "tcp_rcv_lowat"}).stdout.strip() == "tcp_rcv_lowat"
