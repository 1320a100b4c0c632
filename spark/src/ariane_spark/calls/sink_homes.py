"""The home of a sink: the broker that decides whether its batches are committed.

It is chosen once, and noted at every broker of the sink that is there. ::

    some broker has a note               its home, which is waited for while it is away
    none has, all brokers answer         the sink is new: choose
    none has, a broker is away           that one alone may have the note: it is waited for; then
                                         choose for the first batch of a stream, refuse any other

While a home is away, another broker decides only after an operator moves the sink.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Collection, Mapping
from typing import Final

from ariane.broker.v1.sink_service_pb2 import (
    GetSinkHomeRequest,
    GetSinkHomeResponse,
    NoteSinkHomeRequest,
    SinkHome,
)
from ariane.broker.v1.sink_service_pb2_grpc import SinkServiceStub
from ariane_sdk.errors import ServiceUnavailable
from ariane_sdk.translation import error_from_rpc
from ariane_spark.calls.channels import Channels
from ariane_spark.calls.name_servers import NameServers
from ariane_spark.calls.named_brokers import named_brokers
from ariane_spark.calls.routes import Routes
from ariane_spark.calls.sink_batches import Sink, SinkBatch
from ariane_spark.errors import QueueNotFound
from ariane_wire import CallFailed

_log: Final = logging.getLogger(__name__)


class HomeUnknown(ServiceUnavailable):
    """No broker that is there knows the home of a sink, and one that is away may."""


class SinkHomes:
    """Finds, chooses and notes the homes of sinks; for one thread of one process."""

    def __init__(
        self, endpoints: str, routes: Routes, channels: Channels, *, timeout_s: float
    ) -> None:
        """Take the addresses; nothing is connected yet.

        Args:
            endpoints: Name servers, ``host:port``, separated by commas.
            routes: Tells the brokers of a sink.
            channels: Connections to them.
            timeout_s: The timeout of one call.
        """
        self._name_servers = NameServers(endpoints)
        self._routes = routes
        self._channels = channels
        self._timeout_s = timeout_s
        self.silent: frozenset[str] = frozenset()
        """Brokers that did not answer when a home was asked for last."""

    def find(self, batch: SinkBatch, *, awaits_away: bool = True) -> str:
        """The broker that decides about a batch; it is chosen, and noted, for a new sink.

        Args:
            batch: The batch.
            awaits_away: Whether no home is chosen while a broker that may know one is away.

        Raises:
            HomeUnknown: A broker that is away may know.
            ArianeError: The home or a broker that may know it does not answer.
        """
        sink = batch.sink
        addresses = self.addresses(sink)
        answers = self._answers(sink, addresses)
        notes = _homes_in(answers)
        if not notes:
            away: frozenset[str] = frozenset()
            if sink.topic is not None:
                away = self._routes.away_brokers(sink.topic)
                self._routes.forget(sink.topic)  # The next one may have who is missing now.
            self._check_all_answered(sink)
            if awaits_away:
                self._check_nobody_away(sink, away, addresses)
            self._choose(sink, addresses)
            if batch.batch_id > 0:
                _log.warning(
                    "no broker knew sink %s, nor how far it was written: %s counts as its first",
                    sink.name,
                    batch,
                )
            # If several writers choose at the same time, one note wins at all brokers.
            notes = _homes_in(self._answers(sink, addresses))
        home = max(notes.values(), key=_rank)
        names = {*home.broker_names, *addresses}
        behind = {
            name
            for name in addresses
            if name not in notes
            or _rank(notes[name])[:2] != _rank(home)[:2]
            or not names.issubset(notes[name].broker_names)
        }
        home.broker_names[:] = sorted(names)
        if home.broker_name in behind:
            # It decides only now, and asks all others first what was committed before.
            self._note(sink, addresses, [home.broker_name], home)
            behind.remove(home.broker_name)
        if behind:
            self._note(sink, addresses, behind, home, strict=False)
        if home.broker_name in addresses:
            return home.broker_name
        raise ServiceUnavailable(
            f"broker {home.broker_name}, which decides for {sink.name}, is away; if it does not"
            f" come back ever: ariane sink move '{sink.name}' BROKER --home-is-gone",
            retriable=True,
        )

    def addresses(self, sink: Sink) -> Mapping[str, str]:
        """The address of each broker of a sink that is there.

        Raises:
            ArianeError: No broker has its topic, or no name server answers.
        """
        if sink.topic is None:
            return self._routes.brokers().addresses
        return self._routes.addresses(sink.topic)

    def _check_all_answered(self, sink: Sink) -> None:
        if self.silent:
            raise ServiceUnavailable(
                f"broker {', '.join(sorted(self.silent))}, which may know where {sink.name}"
                " writes, does not answer",
                retriable=True,
            )
        if self._is_uncertain(sink):
            raise ServiceUnavailable(
                "name servers have just started, or do not answer: brokers may be missing that know"
                f" where {sink.name} writes",
                retriable=True,
            )

    def _check_nobody_away(
        self, sink: Sink, away_before: frozenset[str], addresses: Mapping[str, str]
    ) -> None:
        """Refuse while a broker is away, as of the route that was used, or of any name server."""
        named = named_brokers(
            self._name_servers, self._channels, sink.topic, timeout_s=self._timeout_s
        )
        known = away_before | named.known
        away = (known | named.ordered) - addresses.keys()
        if not away:
            return
        forgotten, order = ", ".join(sorted(away - known)), ""
        if forgotten:
            order = (
                f"; only the queue order of the topic names {forgotten}, until"
                f" ariane topic order {sink.topic} --set"
            )
        what = "is away" if sink.topic is None else f"has topic {sink.topic} and is away"
        raise HomeUnknown(
            f"broker {', '.join(sorted(away))} {what}; it alone may know how far {sink.name} was"
            " written. If it does not come back, or nothing was written yet: ariane sink move"
            f" '{sink.name}' BROKER --home-is-gone --topic {sink.topic or repr('')}{order}",
            retriable=True,
        )

    def _choose(self, sink: Sink, addresses: Mapping[str, str]) -> None:
        """Choose a home among the brokers that the sink writes to, and note it everywhere."""
        candidates = [name for name in addresses if sink.has(name)]
        if not candidates:
            raise QueueNotFound(f"none of {', '.join(sink.brokers)} is a broker of {sink.name}")
        chosen = max(candidates, key=lambda name: zlib.crc32(f"{sink.name}@{name}".encode()))
        home = SinkHome(broker_name=chosen, broker_names=sorted(addresses))
        self._note(sink, addresses, sorted(addresses, key=lambda name: name == chosen), home)

    def _answers(self, sink: Sink, addresses: Mapping[str, str]) -> dict[str, GetSinkHomeResponse]:
        """The brokers' reports about a sink's home; brokers without an answer are missing."""
        request = GetSinkHomeRequest(query_id=sink.name, topic=sink.topic or "")
        calls = {
            name: self._stub_at(address).GetSinkHome.future(request, timeout=self._timeout_s)
            for name, address in addresses.items()
        }
        answers = {}
        for name, call in calls.items():
            try:
                answers[name] = call.result()
            except CallFailed as failure:
                error = error_from_rpc(failure, peer=f"broker {name} at {addresses[name]}")
                if not error.retriable:
                    raise error from failure
        self.silent = frozenset(addresses.keys() - answers.keys())
        return answers

    def _note(
        self,
        sink: Sink,
        addresses: Mapping[str, str],
        names: Collection[str],
        home: SinkHome,
        *,
        strict: bool = True,
    ) -> None:
        """Note a home at some brokers."""
        request = NoteSinkHomeRequest(query_id=sink.name, topic=sink.topic or "", home=home)
        for name in names:
            try:
                self._stub_at(addresses[name]).NoteSinkHome(request, timeout=self._timeout_s)
            except CallFailed as failure:
                if strict:
                    error = error_from_rpc(failure, peer=f"broker {name} at {addresses[name]}")
                    raise error from failure

    def _is_uncertain(self, sink: Sink) -> bool:
        if sink.topic is None:
            return not self._routes.brokers().complete
        return sink.topic in self._routes.uncertain_topics()

    def _stub_at(self, address: str) -> SinkServiceStub:
        return SinkServiceStub(self._channels.to(address))


def _homes_in(answers: Mapping[str, GetSinkHomeResponse]) -> dict[str, SinkHome]:
    """The noted homes, by the broker with the note."""
    return {name: answer.home for name, answer in answers.items() if answer.HasField("home")}


def _rank(home: SinkHome) -> tuple[int, str, int]:
    """The rank of a note: of two notes the one with the higher rank counts, as in the contract."""
    known = home.committed_batch_id if home.HasField("committed_batch_id") else -1
    return home.move_count, home.broker_name, known
