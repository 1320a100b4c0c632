"""What is said to gRPC is said before it is imported, and it understands it."""

import os
import subprocess
import sys

from ariane_sdk.runtime.before_grpc import EXPERIMENTS

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


def run(module: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if name != "GRPC_EXPERIMENTS"}
    return subprocess.run(
        [sys.executable, "-c", _LOOK, module],
        env=own | environment,
        capture_output=True,
        text=True,
        check=True,
    )


def test_grpc_hears_the_choice_when_it_is_imported() -> None:
    ended = run("ariane_sdk", {})
    assert ended.stdout.strip() == EXPERIMENTS
    # gRPC complains there of what it does not know.
    assert not ended.stderr


def test_what_the_environment_says_goes_first() -> None:
    assert (
        run("ariane_sdk", {"GRPC_EXPERIMENTS": "tcp_rcv_lowat"}).stdout.strip() == "tcp_rcv_lowat"
    )
