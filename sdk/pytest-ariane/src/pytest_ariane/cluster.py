"""A name server and a broker inside this process: the real engine on a disk in memory."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar, cast

from ariane_broker.settings import BrokerSettings
from ariane_namesrv.app import NamesrvApp
from ariane_namesrv.settings import NamesrvSettings
from ariane_sdk import ClusterClient, Tls
from ariane_sdk.errors import ServiceUnavailable
from ariane_servicekit import Address, StopRequest, serving
from ariane_servicekit.security.caller import MemberKind
from ariane_storage.disk.disk import Disk
from ariane_storage.testing.faulty_disk import FaultyDisk
from pytest_ariane.closing import Closing
from pytest_ariane.faults import Faults
from pytest_ariane.forward_clock import ForwardClock
from pytest_ariane.mortal_broker import MortalBroker

_LOOKS_AT_DISK_S: Final = 10.0
"""How often the broker checks how full its disk is."""

_BROKER_NAME: Final = "broker-a"
_WAIT_S: Final = 1.0
_TRIES_MAX: Final = 10
_FOR_EVER_S: Final = 1e9

_Answer = TypeVar("_Answer")


class InProcessCluster:
    """A cluster of one broker beside the test, on a loop and in threads of its own.

    Its disk is in memory: nothing is left behind, and it can fail like a real disk.
    """

    def __init__(self, data_path: Path, closing: Closing | None = None) -> None:
        """Start nothing yet.

        Args:
            data_path: A folder for the files of the name server.
            closing: Closes the cluster; None leaves it open, and in plain text.
        """
        self._closing = closing
        self.clock = ForwardClock()
        """The clock of the broker's timers. The name server and the store's timestamps use the
        machine's clock."""
        self.faults = Faults(self)
        """Switches for faults."""
        self._data_path = data_path
        self._disk = FaultyDisk()
        self._thread: LoopThread | None = None
        self._name_server = AsyncExitStack()
        self._broker_life = AsyncExitStack()
        self._broker: MortalBroker | None = None
        self._name_server_address = ""
        self._broker_address = Address("127.0.0.1", 0)

    @property
    def name_servers(self) -> str:
        """What clients take as their first argument."""
        return self._name_server_address

    @property
    def broker_address(self) -> str:
        """The broker's address, "host:port"; it stays the same after restarts."""
        return str(self._broker_address)

    @property
    def broker_runs(self) -> bool:
        """Whether the broker is running."""
        return self._broker is not None

    def start(self) -> None:
        """Start both, and wait until they are ready."""
        self._thread = LoopThread("ariane-cluster")
        try:
            self._thread.call(self._start_name_server())
            self.start_broker()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop both in order. Repeating is harmless."""
        if self._thread is not None:
            self._thread.call(self._end_broker(dies=False))
            self._thread.call(self._name_server.aclose())
            self._thread.close()
            self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create_topic(self, topic: str, *, queue_count: int = 4, fifo: bool = False) -> None:
        """Create a topic; routes contain it when this returns."""

        async def create() -> None:
            async with ClusterClient(self.name_servers) as client:
                made = partial(client.create_topic, topic, queue_count=queue_count, fifo=fifo)
                try:
                    await made()
                except ServiceUnavailable:
                    # On a machine that is busy, a connection may take longer than a client waits.
                    await made(exists_ok=True)

        self._loop_thread.call(create())

    def user(self, name: str, *rights: str) -> Tls:
        """Give a user of a closed cluster rights; return what he shows, for ``tls=`` of clients.

        Args:
            name: The user.
            rights: All of his rights, such as ``PUBLISH topic order-*``.

        Raises:
            ValueError: A right is none.
            RuntimeError: The cluster is open.
        """
        if self._closing is None:
            raise RuntimeError("rights are for a closed cluster: run pytest with --ariane-closed")
        addresses = (self._name_server_address, self.broker_address)
        return self._loop_thread.call(self._closing.add(name, rights, addresses))

    def _closed_as(self, kind: MemberKind, name: str) -> Mapping[str, Any]:
        return {} if self._closing is None else self._closing.settings(kind, name)

    def start_broker(self) -> None:
        """Start the broker on its port and its disk; harmless if it is running."""
        if self._broker is None:
            self._loop_thread.call(self._start_broker())

    def restart_broker(self) -> None:
        """Stop the broker in order, and start it again."""
        self._loop_thread.call(self._end_broker(dies=False))
        self.start_broker()

    def kill_broker(self) -> None:
        """End the broker as SIGKILL does: memory is lost, written data stays."""
        self._loop_thread.call(self._end_broker(dies=True))
        self._disk = self._disk.kill()

    def cut_power(self, seed: int = 0) -> None:
        """End the broker as a power cut does: a random part of the unflushed data stays."""
        self._loop_thread.call(self._end_broker(dies=True))
        self._disk = self._disk.lose_power(seed)

    def fill_disk(self) -> None:
        """Make the disk full; returns when the broker has noticed it.

        The broker checks every ten seconds, so the clock moves forward by as much; more than once
        if the broker is slow.
        """
        self._set_disk_usage(1.0)

    def free_disk(self) -> None:
        """Give the disk room again; returns when the broker has noticed it, as ``fill_disk``."""
        self._set_disk_usage(None)

    def heal(self) -> None:
        """End all faults: no rules, room on the disk, a running broker."""
        self.faults.clear()
        if self._disk.used_ratio is not None:
            self.free_disk()
        self.start_broker()

    def _set_disk_usage(self, used_ratio: float | None) -> None:
        self._disk.used_ratio = used_ratio
        broker = self._broker
        if broker is None:
            return
        for _ in range(_TRIES_MAX):
            # Again, in case a starting broker began to wait only after the clock moved.
            self.clock.advance(_LOOKS_AT_DISK_S)
            if _comes_true(lambda: bool(broker.refusal) == (used_ratio is not None)):
                return
        raise TimeoutError(f"the broker did not follow within {_TRIES_MAX * _WAIT_S:.0f} s")

    @property
    def _loop_thread(self) -> LoopThread:
        if self._thread is None:
            raise RuntimeError("the cluster was not started")
        return self._thread

    async def _start_name_server(self) -> None:
        values: dict[str, Any] = {
            "listen": Address("127.0.0.1", 0),
            "data_path": self._data_path,
            "warm_up_s": 0,
            **self._closed_as(MemberKind.NAME_SERVER, "pytest"),
        }
        life = serving(NamesrvSettings(**values), NamesrvApp)
        self._name_server_address = str(await self._name_server.enter_async_context(life))

    async def _start_broker(self) -> None:
        broker: MortalBroker | None = None

        def compose(settings: BrokerSettings, stop: StopRequest) -> MortalBroker:
            nonlocal broker
            broker = MortalBroker(settings, stop, self.clock, shared(self._disk), self.faults)
            return broker

        address = await self._broker_life.enter_async_context(
            serving(self._broker_settings(), compose)
        )
        self._broker_address, self._broker = address, broker

    async def _end_broker(self, *, dies: bool) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.end(dies=dies)
        # Waits for the broker to end, even if it failed by itself.
        await self._broker_life.aclose()
        self._broker_life = AsyncExitStack()

    def _broker_settings(self) -> BrokerSettings:
        values: dict[str, Any] = {
            "listen": self._broker_address,
            "name_servers": (self._name_server_address,),
            "broker_name": _BROKER_NAME,
            "store_path": Path("/ariane/store"),
            # Small: the whole disk is in memory.
            "segment_bytes": 8 << 20,
            "consume_queue_entries": 4000,
            "index_slots": 1000,
            "index_items": 4000,
            "grace_s": 0.2,
            # Moving the clock must not make clients count as silent.
            "client_silence_s": _FOR_EVER_S,
            **self._closed_as(MemberKind.BROKER, _BROKER_NAME),
        }
        return BrokerSettings(**values)


def _comes_true(is_so: Callable[[], bool]) -> bool:
    """Whether a condition becomes true within ``_WAIT_S``."""
    deadline = time.monotonic() + _WAIT_S
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


class LoopThread:
    """Runs coroutines for callers without a loop, or with another one."""

    def __init__(self, name: str) -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def call(self, step: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Run a coroutine on the loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(step, self._loop).result()

    def close(self) -> None:
        """End the thread."""
        self.call(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _OneAtATime:
    """Passes the operations on to the disk, one at a time."""

    def __init__(self, disk: FaultyDisk) -> None:
        self._disk = disk
        self._lock = threading.RLock()

    def __getattr__(self, name: str) -> Any:
        step = getattr(self._disk, name)

        def locked(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                return step(*args, **kwargs)

        return locked


def shared(disk: FaultyDisk) -> Disk:
    """A disk for several threads; the given disk is for one thread only."""
    return cast("Disk", _OneAtATime(disk))
