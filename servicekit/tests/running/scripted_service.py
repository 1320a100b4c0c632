"""A service that writes down its steps on stderr and misbehaves as told: run by tests.

What it is told stands in the environment: MISBEHAVIOUR.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from typing import ClassVar

from pydantic import Field, SecretStr

import ariane_servicekit as servicekit
from ariane_servicekit import (
    Address,
    ExitStatus,
    ServiceSettings,
    StartRefused,
    StopIncomplete,
    StopRequest,
)


class ScriptedSettings(ServiceSettings):
    """A service that misbehaves as told."""

    service_name: ClassVar[str] = "scripted"

    password: SecretStr | None = Field(None, description="A secret.")


class ScriptedApp:
    rpc_services = ()
    error_rules: ClassVar[dict] = {}
    open_while_draining = ()

    def __init__(self, misbehaviour: str, stop: StopRequest) -> None:
        self.misbehaviour = misbehaviour
        self.stop_request = stop

    async def recover(self, address: Address) -> None:
        self._step("recover")
        match self.misbehaviour:
            case "refuse" | "refuse-and-save-nothing":
                raise StartRefused("the store is locked by process 1")
            case "crash":
                raise RuntimeError("a fault")
            case "slow-recovery":
                await asyncio.sleep(3600)

    async def serve_started(self, _address: Address) -> None:
        self._step("serve_started")
        if self.misbehaviour == "ask-to-stop":
            self.stop_request.request("store poisoned", exit_status=ExitStatus.FAULT)
        if self.misbehaviour == "signal-in-a-thread":
            threading.Timer(0.3, signal_this_thread).start()

    async def drain(self) -> None:
        self._step("drain")
        match self.misbehaviour:
            case "slow-drain":
                await asyncio.sleep(3600)
            case "stuck-drain":
                time.sleep(3600)  # noqa: ASYNC251 - stuck on purpose
            case "failing-drain":
                raise RuntimeError("a fault")

    async def stop(self) -> None:
        self._step("stop")
        if self.misbehaviour == "refuse-and-save-nothing":
            raise StopIncomplete("snapshots: no space left")

    def _step(self, name: str) -> None:
        sys.stderr.write(f"STEP {name}\n")
        sys.stderr.flush()


def signal_this_thread() -> None:
    """As the kernel may, also while the main thread is about to wait for sockets."""
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)


if __name__ == "__main__":
    misbehaviour = os.environ.get("MISBEHAVIOUR", "none")
    sys.exit(
        servicekit.main(
            ScriptedSettings,
            lambda _settings, stop: ScriptedApp(misbehaviour, stop),
            sys.argv[1:],
            os.environ,
        )
    )
