"""The sinks of exactly-once writes: listing, moving and deleting them.

Messages of a sink are staged at all its brokers, and one of them, its home, decides about batches.
Each of the brokers has a note of the home; if notes differ, the highest one counts.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ariane.broker.v1.sink_service_pb2 import (
    DeleteSinkRequest,
    ListSinksRequest,
    ListSinksResponse,
    NoteSinkHomeRequest,
    Sink,
    SinkHome,
)
from ariane_record.counted import counted
from ariane_sdk.client.broker_calls import answer_of
from ariane_sdk.errors import (
    CallError,
    DeadlinePassed,
    IllegalArgument,
    ServiceUnavailable,
    SinkNotFound,
)
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.pages import all_pages
from ariane_sdk.net.timestamps import moment_from
from ariane_sdk.routing.live_broker import LiveBroker
from ariane_sdk.routing.route import Route


@dataclass(frozen=True, slots=True)
class SinkReport:
    """The state of the sink of an exactly-once write."""

    name: str
    """Its name."""
    topic: str
    """The topic that it writes to; empty if the rows name topics."""
    home: str
    """The broker that decides about its batches; empty without a note."""
    home_is_live: bool
    """Whether that broker is live and answers; without it the sink cannot be written to."""
    batch_id: int | None
    """The last batch known to be committed; None without one."""
    row_count: int | None
    """The rows of that batch; None if unknown."""
    commit_time: datetime | None
    """When that batch was committed; None if unknown."""
    staged_row_count: int
    """Rows that are staged and not committed, on all brokers."""
    staged_bytes: int
    """The bytes of these rows."""
    stage_time: datetime | None
    """When the last of these rows were staged."""
    publishing: bool
    """Whether a committed batch is not completely visible yet."""
    failure: str
    """The error that stops its publication; empty without one."""
    broker_names: tuple[str, ...]
    """The brokers that know the sink."""
    staged_bytes_by_broker: Mapping[str, int]
    """The bytes that are staged and not committed, of each broker that has any."""
    prepared_batch_ids: Mapping[str, int]
    """The batch that is prepared at a broker and waits for the word of the home, by broker."""
    unnotified_broker_names: tuple[str, ...]
    """The brokers with parts of committed batches that do not know it yet."""


@dataclass(frozen=True, slots=True)
class SinkMoved:
    """The result of moving a sink."""

    home: str
    """The broker that decided before; empty if no broker that answers knew the sink."""
    target: str
    """The broker that decides now."""
    home_answered: bool
    """Whether the old broker returned its committed batches, so that a repeated batch is
    recognised."""
    batch_id: int | None
    """The last batch that counts as committed; None without one."""
    unnotified_broker_names: tuple[str, ...]
    """Brokers that do not have the new note yet; the next write sends it to them."""


@dataclass(frozen=True, slots=True)
class SinkDeleted:
    """The result of deleting a sink."""

    broker_names: tuple[str, ...]
    """The brokers that knew the sink."""
    dropped_row_count: int
    """The staged rows that were dropped."""
    lost_row_count: int
    """The committed rows that were given up because they cannot be read."""


class SinkCalls:
    """Reads and changes the sinks on all brokers."""

    def __init__(
        self, connections: Connections, primaries: Sequence[LiveBroker], *, timeout_s: float
    ) -> None:
        self._connections = connections
        self._primaries = primaries
        self._timeout_s = timeout_s

    async def reports(
        self, name: str = "", leave_out: Callable[[str, CallError], None] | None = None
    ) -> list[SinkReport]:
        """All sinks, or one, by name; see ``ClusterClient.list_sinks``."""
        answers = await asyncio.gather(
            *(self._sinks_of(each, name) for each in self._primaries), return_exceptions=True
        )
        known: dict[str, dict[str, Sink]] = defaultdict(dict)
        live: set[str] = set()
        for broker, answer in zip(self._primaries, answers, strict=True):
            if isinstance(answer, ServiceUnavailable | DeadlinePassed) and leave_out is not None:
                leave_out(broker.broker_name, answer)
                continue
            if isinstance(answer, BaseException):
                raise answer
            live.add(broker.broker_name)
            for sink in answer:
                known[sink.query_id][broker.broker_name] = sink
        return [_report(known[query_id], live) for query_id in sorted(known)]

    async def move(
        self,
        name: str,
        target: str,
        route_of: Callable[[str], Awaitable[Route]],
        *,
        home_is_gone: bool,
        committed_batch: int | None,
        topic: str | None,
    ) -> SinkMoved:
        """Have a sink write to another broker; see ``ClusterClient.move_sink``."""
        brokers = {broker.broker_name: broker for broker in self._primaries}
        if target not in brokers:
            raise ServiceUnavailable(
                f"no broker {target} is registered with the name servers", reason="NO_BROKER"
            )
        sinks = await self._known_of(name, tolerant=home_is_gone)
        noted = [sink for sink in sinks.values() if sink.HasField("home")]
        if not (noted or home_is_gone):
            raise SinkNotFound(f"no broker knows where sink {name!r} writes")
        topic = _topic_of(name, noted, topic)
        # Those that know it may all be gone: a home that is moved to outranks theirs.
        before = max((sink.home for sink in noted), key=_rank, default=SinkHome())
        if before.broker_name == target:
            raise IllegalArgument(f"sink {name!r} writes to broker {target} already")
        if topic:
            _check_takes(await route_of(topic), target, name)
        names = {each for sink in noted for each in sink.home.broker_names}
        note = SinkHome(
            broker_name=target,
            move_count=before.move_count + 1,
            # A broker that has staged for the sink may know of its batches.
            broker_names=sorted(({*names, before.broker_name, target} | _knowing(sinks)) - {""}),
        )
        answered = before.broker_name in sinks
        if not answered and home_is_gone:
            note.given_up_broker_name = before.broker_name
        elif not answered:
            raise ServiceUnavailable(
                f"broker {before.broker_name}, the home of sink {name!r}, is away: it alone knows"
                " which batch was committed last"
            )
        if committed_batch is not None:
            note.committed_batch_id = committed_batch
        # It asks all others what is committed, and has them take no word of the old home.
        note = await self._note(brokers[target], name, topic, note)
        others = [each for each in brokers.values() if each.broker_name in sinks.keys() - {target}]
        answers = await asyncio.gather(
            *(self._note(each, name, topic, note) for each in others), return_exceptions=True
        )
        unnotified = [
            broker.broker_name
            for broker, answer in zip(others, answers, strict=True)
            if isinstance(answer, CallError)
        ]
        last_id = note.committed_batch_id if note.HasField("committed_batch_id") else None
        return SinkMoved(before.broker_name, target, answered, last_id, tuple(sorted(unnotified)))

    async def delete(self, name: str) -> SinkDeleted:
        """Delete a sink on all brokers; see ``ClusterClient.delete_sink``."""
        request = DeleteSinkRequest(query_id=name)
        dropped = lost = 0
        names: list[str] = []

        async def at(broker: LiveBroker) -> None:
            nonlocal dropped, lost
            stub = self._connections.sinks(broker.address)
            try:
                answer = await answer_of(
                    stub.DeleteSink(request, timeout=self._timeout_s), _peer(broker)
                )
            except SinkNotFound:
                return
            names.append(broker.broker_name)
            dropped += answer.dropped_record_count
            lost += answer.lost_record_count

        # The home last: others may ask it what became of their parts.
        known = await self._known_of(name, tolerant=True)
        notes = [sink.home for sink in known.values() if sink.HasField("home")]
        home = max(notes, key=_rank).broker_name if notes else ""
        others = [each for each in self._primaries if each.broker_name != home]
        failures = await asyncio.gather(*map(at, others), return_exceptions=True)
        if all(failure is None for failure in failures):
            homes = [each for each in self._primaries if each.broker_name == home]
            failures += await asyncio.gather(*map(at, homes), return_exceptions=True)
        for failure in failures:
            if failure is not None:
                others_done = counted(len(names), "other broker")
                failure.add_note(f"{others_done} forgot sink {name!r}; say it again")
                raise failure
        if not names:
            raise SinkNotFound(f"no broker knows sink {name!r}")
        return SinkDeleted(tuple(sorted(names)), dropped, lost)

    async def _known_of(self, name: str, *, tolerant: bool) -> dict[str, Sink]:
        """The state of a sink by broker; an empty one for brokers that do not know it."""
        answers = await asyncio.gather(
            *(self._sinks_of(each, name) for each in self._primaries), return_exceptions=tolerant
        )
        found: dict[str, Sink] = {}
        for broker, answer in zip(self._primaries, answers, strict=True):
            if isinstance(answer, BaseException):
                if not isinstance(answer, CallError):
                    raise answer
                continue
            found[broker.broker_name] = answer[0] if answer else Sink(query_id=name)
        return found

    async def _sinks_of(self, broker: LiveBroker, name: str) -> list[Sink]:
        stub = self._connections.sinks(broker.address)

        async def ask(page: ListSinksRequest) -> ListSinksResponse:
            return await answer_of(stub.ListSinks(page, timeout=self._timeout_s), _peer(broker))

        return await all_pages(ask, ListSinksRequest(query_id=name), lambda page: page.sinks)

    async def _note(self, broker: LiveBroker, name: str, topic: str, home: SinkHome) -> SinkHome:
        request = NoteSinkHomeRequest(query_id=name, topic=topic, home=home)
        stub = self._connections.sinks(broker.address)
        call = stub.NoteSinkHome(request, timeout=self._timeout_s)
        return (await answer_of(call, _peer(broker))).home


def _knowing(sinks: Mapping[str, Sink]) -> set[str]:
    """The brokers that know anything of a sink."""
    return {name for name, sink in sinks.items() if sink.ByteSize() > len(sink.query_id) + 2}


def _topic_of(name: str, noted: Sequence[Sink], given: str | None) -> str:
    """The topic of a sink, by its notes; without any, as an operator says."""
    if not noted:
        if given is None:
            raise IllegalArgument(
                f"no broker that answers knows sink {name!r}: say which topic it writes to"
                " (--topic TOPIC), or that its rows name topics (--topic '')"
            )
        return given
    known = next((sink.topic for sink in noted if sink.topic), "")
    if given not in (None, known):
        writes = f"writes to topic {known}" if known else "has rows that name topics"
        raise IllegalArgument(f"sink {name!r} {writes}, and not to {given!r} alone")
    return known


def _check_takes(route: Route, broker_name: str, name: str) -> None:
    """Refuse a home that accepts no messages for the topic of a sink."""
    if all(queue.broker_name != broker_name for queue in route.write_queues):
        raise IllegalArgument(
            f"broker {broker_name} takes no messages for topic {route.topic}, which sink {name!r}"
            " writes to"
        )


def _report(sinks: Mapping[str, Sink], live: Iterable[str]) -> SinkReport:
    """The state of a sink, merged from its brokers."""
    noted = [sink for sink in sinks.values() if sink.HasField("home")]
    home = max((sink.home for sink in noted), key=_rank).broker_name if noted else ""
    # Without an answer of the home, others may know batches committed before it became the home.
    latest = sinks.get(home) or max(sinks.values(), key=_progress)
    committed = latest.HasField("batch_id")
    stage_times = [moment_from(s.stage_time) for s in sinks.values() if s.HasField("stage_time")]
    return SinkReport(
        name=latest.query_id,
        topic=next((sink.topic for sink in noted if sink.topic), ""),
        home=home,
        home_is_live=home in live,
        batch_id=latest.batch_id if committed else None,
        row_count=latest.record_count if latest.HasField("record_count") else None,
        commit_time=moment_from(latest.commit_time) if committed else None,
        staged_row_count=sum(sink.staged_record_count for sink in sinks.values()),
        staged_bytes=sum(sink.staged_bytes for sink in sinks.values()),
        stage_time=max(stage_times, default=None),
        publishing=any(sink.publishing for sink in sinks.values()),
        failure=next((sink.failure for sink in sinks.values() if sink.failure), ""),
        broker_names=tuple(sorted(sinks)),
        staged_bytes_by_broker={
            name: sink.staged_bytes for name, sink in sorted(sinks.items()) if sink.staged_bytes
        },
        prepared_batch_ids={
            name: sink.prepared_batch_id
            for name, sink in sorted(sinks.items())
            if sink.HasField("prepared_batch_id")
        },
        unnotified_broker_names=tuple(
            sorted({n for s in sinks.values() for n in s.unnotified_broker_names})
        ),
    )


def _rank(home: SinkHome) -> tuple[int, str, int]:
    """The rank of a note: of two notes the one with the higher rank counts, as in the contract."""
    known = home.committed_batch_id if home.HasField("committed_batch_id") else -1
    return home.move_count, home.broker_name, known


def _progress(sink: Sink) -> int:
    return sink.batch_id if sink.HasField("batch_id") else -1


def _peer(broker: LiveBroker) -> str:
    return f"broker {broker.broker_name} at {broker.address}"
