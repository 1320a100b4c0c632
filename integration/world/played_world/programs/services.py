"""The services of a cluster, as programs of played processes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from ariane_broker.environment import Environment, Threads
from ariane_broker.lives import BrokerLives
from ariane_broker.settings import BrokerSettings
from ariane_namesrv.app import NamesrvApp
from ariane_namesrv.settings import NamesrvSettings
from ariane_servicekit import Address, Machine, StopRequest, live
from ariane_txn_checker.app import CheckerApp
from ariane_txn_checker.settings import CheckerSettings
from played_world.machines.machine import Machine as PlayedMachine
from played_world.machines.network import PlayedPorts
from played_world.machines.process import Process

NAME_SERVER_PORT: Final = 9876
BROKER_PORT: Final = 10911
CHECKER_PORT: Final = 9880

STORE: Final = Path("/store")

BODY_BYTES_MAX: Final = 16 << 10

SMALL_FILES: Final = {
    "segment_bytes": 80 << 10,
    "consume_queue_entries": 300,
    "index_slots": 256,
    "index_items": 512,
}
"""Files so small that they fill up within minutes."""

Program = Callable[[Process], Coroutine[Any, Any, object]]


class Service:
    """What is known of a running service from outside."""

    def __init__(self) -> None:
        self.is_serving = False
        """Whether it has said that it is ready."""
        self.stop: StopRequest | None = None

    def ready(self, address: Address) -> None:
        """It serves."""
        del address
        self.is_serving = True

    def ask_to_stop(self, process: Process) -> bool:
        """Stop it in order, as by SIGTERM; return whether it has begun to run."""
        stop = self.stop
        if stop is not None:
            process.loop.call_soon_threadsafe(stop.request, "SIGTERM")
        return stop is not None


def kit_machine(process: Process) -> Machine:
    """What the kit gets from the machine of a process."""
    machine = process.machine
    return Machine(machine.clock, process.chance, process.process_id, PlayedPorts(process))


def _listening(machine: PlayedMachine, port: int) -> dict[str, Any]:
    return {"listen": Address(machine.address, port), "insecure": True}


def name_server(service: Service) -> Program:
    """A name server."""

    async def run(process: Process) -> object:
        settings = NamesrvSettings(**_listening(process.machine, NAME_SERVER_PORT))
        clock = process.machine.clock
        stop = service.stop = StopRequest()

        def compose(given: NamesrvSettings, asked: StopRequest) -> NamesrvApp:
            return NamesrvApp(given, asked, clock)

        await live(settings, compose, stop, service.ready, kit_machine(process))
        return stop.exit_status

    return run


def checker(service: Service, **named: Any) -> Program:
    """A checker of transactions with some settings."""

    async def run(process: Process) -> object:
        settings = CheckerSettings(
            **_listening(process.machine, CHECKER_PORT), **named, check_interval_s=10
        )
        stop = service.stop = StopRequest()
        machine = kit_machine(process)

        def compose(given: CheckerSettings, asked: StopRequest) -> CheckerApp:
            return CheckerApp(given, asked, machine)

        await live(settings, compose, stop, service.ready, machine)
        return stop.exit_status

    return run


def broker_settings(machine: PlayedMachine, **named: Any) -> BrokerSettings:
    """Settings of a broker on a machine."""
    return BrokerSettings(
        **_listening(machine, BROKER_PORT),
        store_path=STORE,
        message_bytes_max=BODY_BYTES_MAX,
        **named,
    ).model_copy(update=SMALL_FILES)  # Smaller than settings allow.


def broker(service: Service, **named: Any) -> Program:
    """A broker with some settings."""

    async def run(process: Process) -> object:
        machine = process.machine
        settings = broker_settings(machine, **named)
        stop = service.stop = StopRequest()

        def environment_of(given: BrokerSettings, asked: StopRequest) -> Environment:
            threads = Threads(*(process.new_threads(1) for _ in range(4)))
            clock, disk = machine.clock, machine.disk(process)
            return Environment(given, asked, clock, disk, threads, clock, process.chance)

        lives = BrokerLives(environment_of)
        await live(settings, lives.compose, stop, service.ready, kit_machine(process))
        return stop.exit_status

    return run
