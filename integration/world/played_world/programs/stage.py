"""A cluster and its clients, kept running as an operator's supervisor would."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from played_world.history import Delivered, History, Place
from played_world.machines.timeline import EPOCH_MS
from played_world.programs.services import NAME_SERVER_PORT, Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ariane_sdk import MessageQueue, ReceivedMessage
    from played_world.machines.machine import Machine
    from played_world.machines.process import Process
    from played_world.programs.services import Program
    from played_world.world import World

RESTART_S: Final = (0.2, 3.0)
"""How long it takes until a process that has ended is started again."""

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it.
"""Where files are in memory: databases flush whatever they write."""

LOOK_S: Final = 0.5
"""How often is looked whether all is consumed: several ask, and it takes longer than most turns."""


class Role:
    """A program on a machine, started again whenever it has ended."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        kind: str,
        program: Callable[[Service], Program],
    ) -> None:
        self.stage = stage
        self.name = name
        self.kind = kind
        """"name server", "broker", "checker", "client" or "operator"."""
        self.machine: Machine = stage.world.machine(name)
        self.service = Service()
        self.process: Process | None = None
        """The present one, or the last one."""
        self.starts = 0
        """How often it was started."""
        self.is_done = False
        self.is_away = False
        self.can_leave = False
        """Whether it stops in order when it is asked to, and comes back later."""
        self._program = program

    def start(self) -> None:
        """Start it, unless it runs or has no power."""
        if self.is_done or self.is_away or not self.machine.is_up or self.is_running:
            return
        self.starts += 1
        self.service = Service()
        program = self._program(self.service)
        self.process = self.machine.start(self.name, program, self._ended)
        self.stage.happens("started", self.name)

    def leave(self, seconds: float) -> bool:
        """Stop a client in order, and keep it away for a while; return whether it has begun."""
        process = self.process
        if process is None or process.is_dead or process.leaves is None:
            return False
        self.is_away = True
        process.loop.call_soon_threadsafe(process.leaves)
        self.stage.world.timeline.after(seconds, self.come_back)
        return True

    def come_back(self) -> None:
        """Be there again."""
        self.is_away = False
        self.start()

    @property
    def is_running(self) -> bool:
        """Whether it lives."""
        return self.process is not None and not self.process.is_dead

    def _ended(self, process: Process) -> None:
        error = process.outcome
        self.stage.history.end_sender(f"{self.name}/{process.process_id}/")
        if self.kind in ("client", "operator") and not self.stage.wants_more and error is None:
            self.is_done = True
        low, high = RESTART_S
        wait_s = low + (high - low) * process.chance.random()
        self.stage.world.timeline.after(wait_s, self.start)


class Stage:
    """The roles of a cluster, and what its clients have done and seen."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.history = History()
        self.roles: dict[str, Role] = {}
        self.wants_more = True
        """Whether producers go on."""
        self.is_disturbed = True
        """Whether operators go on."""
        self.is_settled = False
        """Whether everything has come, and some time has passed."""
        self.topics: list[str] = []
        """Those whose queues operators change."""
        self.is_set = False
        """Whether its brokers are a replica set."""
        self.primary_count = 0
        """How many brokers of different names there are."""
        self.met: Counter[str] = Counter()
        """How often each fault met each step; see ``steps.table``."""
        self.befallen: Counter[str] = Counter()
        """How often each fault has done something: nobody is killed who is down."""
        self.wounded: Role | None = None
        """The broker whose disk has lost or damaged what it had, if any."""
        self.former: Role | None = None
        """The primary that was befallen last."""
        self.ambushes: dict[str, list[Callable[[str], bool]]] = {}
        """What waits for something to happen, by what that is: see ``ambushes.py``."""
        self._owners: dict[tuple[str, MessageQueue], tuple[Process, int]] = {}
        self.are_stubborn = False
        """Whether listeners fail on some messages again and again."""
        self.tries: dict[str, Counter[bytes]] = {}
        """How often each group has tried these."""
        self._looked_s = -LOOK_S
        self._was_drained = False
        self.scratch = tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None)
        """A folder for databases, which are on no played disk."""

    def add(self, name: str, kind: str, program: Callable[[Service], Program]) -> Role:
        """Put a role on a machine of its name."""
        role = self.roles[name] = Role(self, name, kind, program)
        return role

    def of_kind(self, kind: str) -> list[Role]:
        """The roles of a kind."""
        return [role for role in self.roles.values() if role.kind == kind]

    @property
    def name_servers(self) -> str:
        """Where name servers are, for clients and brokers."""
        roles = self.of_kind("name server")
        return ",".join(f"{role.machine.address}:{NAME_SERVER_PORT}" for role in roles)

    @property
    def now_ms(self) -> int:
        """The wall clock of who has a good one."""
        return EPOCH_MS + round(self.world.timeline.now * 1000)

    def happens(self, what: str, name: str = "") -> None:
        """Something happens for which an ambush may wait.

        Args:
            what: One of ``ambushes.TRIGGERS``.
            name: The role to which it happens, if it is known.
        """
        waiting = self.ambushes.pop(what, ())
        if waiting:
            left = [spring for spring in waiting if not spring(name)]
            self.ambushes.setdefault(what, []).extend(left)

    def finish(self, group: str, messages: Sequence[ReceivedMessage]) -> None:
        """A consumer is done with messages."""
        for message in messages:
            self.history.finish(group, bytes(message.body).decode())

    def got(self, group: str, member: str, message: ReceivedMessage) -> None:
        """A consumer has got a message."""
        place = Place(*message.message_queue, message.queue_offset)
        value = bytes(message.body).decode()
        timeline = self.world.timeline
        timeline.note(f"got {group} {member} {value} {place}")
        self.history.delivered.append(Delivered(timeline.now, group, member, place, value))

    @contextmanager
    def owning(
        self, process: Process, group: str, messages: Sequence[ReceivedMessage]
    ) -> Iterator[None]:
        """A member in order has messages of its queue in work: nobody else may have."""
        key = (group, messages[0].message_queue)
        other, pauses = self._owners.get(key, (process, 0))
        # Who was frozen in the middle of its work cannot know that its time is over.
        if other is not process and not other.is_dead and other.pauses == pauses:
            self.world.findings.append(f"two-owners: {other.name} and {process.name} have {key}")
        self._owners[key] = mine = (process, process.pauses)
        yield
        if self._owners.get(key) == mine:
            del self._owners[key]

    def settle(self, group: str, messages: Sequence[ReceivedMessage]) -> None:
        """A broker has said that messages are settled."""
        now_s = self.world.timeline.now
        for message in messages:
            self.history.settled.setdefault((group, bytes(message.body).decode()), now_s)
        if messages:
            self.happens("settled", messages[0].message_queue.broker_name)

    @property
    def is_drained(self) -> bool:
        """Whether every outcome is known, and every group has got what was acknowledged."""
        now_s = self.world.timeline.now
        if now_s >= self._looked_s + LOOK_S:
            self._looked_s, self._was_drained = now_s, self._look()
        return self._was_drained

    def _look(self) -> bool:
        if any(sent.outcome == "open" for sent in self.history.sent.values()):
            return False
        if self.history.not_begun:
            return False
        return not any(self.history.missing(group) for group in self.history.groups)
