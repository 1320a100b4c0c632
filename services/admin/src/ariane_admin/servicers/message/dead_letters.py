"""``DeadLetterService``: reading dead letters of groups, and sending them back."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from grpc import aio

from ariane.admin.v1 import dead_letter_service_pb2 as letter_pb
from ariane.admin.v1.dead_letter_service_pb2_grpc import DeadLetterServiceServicer
from ariane_admin.asking.answers import Answers
from ariane_admin.asking.broker_readings import queue_bounds
from ariane_admin.asking.cluster_doors import (
    CALL_SECONDS_MAX,
    broker_peer,
)
from ariane_admin.counted import counted
from ariane_admin.servicers.cluster_access import ClusterAccess, group_not_found
from ariane_admin.servicers.message.message_wire import message_of
from ariane_admin.servicers.times import moment_in, time_of
from ariane_record.names import dead_letter_topic
from ariane_sdk import (
    DeadLetter,
    DeadLetterChunk,
    DeadLetterFilter,
    LiveBroker,
    MessageQueue,
    Redrive,
)
from ariane_sdk.errors import DeadlinePassed, ServiceUnavailable, TopicNotFound
from ariane_servicekit import PageRequest, field_invalid

_Context = aio.ServicerContext[Any, Any]

PLACES_MAX: Final = 1000
REDRIVEN_DEFAULT: Final = 10_000
REDRIVE_SECONDS_MAX: Final = 10.0
"""How long one call sends back: callers wait for at least 15 s, and repeat."""

REDRIVE_STUCK_S: Final = 5.0
"""How much longer a call may hang at a broker, whose client repeats for half a minute."""

SEARCH_SECONDS_MAX: Final = 3.0
"""How long one call looks for a page of dead letters, which may be rare; the next call goes on."""

FAILURES_MAX: Final = 100

_PLACE_KINDS: Final = (str, int, int)


class _Enough(Exception):
    """One call has sent back as many as it may."""


class DeadLetterServicer(DeadLetterServiceServicer):
    """Reads dead letters page by page, and lets brokers send them back."""

    asked_methods: Final = frozenset({"RedriveDeadLetters"})
    """Methods that ask for the rights on what their handles touch."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._doors = cluster.doors

    async def ListDeadLetters(
        self, request: letter_pb.ListDeadLettersRequest, context: _Context
    ) -> letter_pb.ListDeadLettersResponse:
        """List dead letters by place."""
        wanted = _filter(request.query)
        page = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"dead:{request.consumer_group}:{wanted}",
            kinds=_PLACE_KINDS,
        )
        answers = await self._cluster.answers()
        search = _Search(request, wanted, page)
        brokers = await self._with_dead_letters(request.consumer_group, answers)
        await self._look(search, brokers, answers)
        if not search.found and page.last is None and search.reached is None:
            await self._must_be_known(request.consumer_group)
        taken = page.page_of(search.found, _place_of)
        answer = letter_pb.ListDeadLettersResponse(
            dead_letters=taken.entries,
            next_page_token=taken.next_page_token,
            silent_brokers=self._cluster.silent(answers),
        )
        if search.reached is not None and not answer.next_page_token:
            answer.next_page_token = page.token_behind(_key_of(search.reached))
            if len(search.found) < page.limit:
                answer.searched_to.CopyFrom(search.reached)
        return answer

    async def RedriveDeadLetters(
        self, request: letter_pb.RedriveDeadLettersRequest, context: _Context
    ) -> letter_pb.RedriveDeadLettersResponse:
        """Send dead letters back."""
        if len(request.places) > PLACES_MAX:
            raise field_invalid("places", f"must be at most {PLACES_MAX}", len(request.places))
        count_max = request.message_count_max or REDRIVEN_DEFAULT
        now_s = asyncio.get_running_loop().time
        end_s = now_s() + REDRIVE_SECONDS_MAX
        done = Redrive(failures={})
        answer = letter_pb.RedriveDeadLettersResponse()

        def is_enough(now: Redrive) -> bool:
            return now.redriven_count >= count_max or now_s() >= end_s

        reader = await self._cluster.reader()
        wanted = _wanted(request)
        for number, one in enumerate(wanted, 1):
            progress = _Progress(is_enough)
            try:
                async with asyncio.timeout_at(end_s + REDRIVE_STUCK_S):
                    await reader.redrive(
                        request.consumer_group, one, to_topic=request.to_topic, on_progress=progress
                    )
            except TimeoutError:
                _take(done, progress.latest)
                raise await self._stuck(request.consumer_group, done) from None
            except _Enough:
                if not request.places and progress.latest.reached is not None:
                    answer.continue_after.CopyFrom(_place_at(*progress.latest.reached))
            _take(done, progress.latest)
            if number < len(wanted) and is_enough(done):
                answer.continue_after.CopyFrom(
                    request.places[len(request.places) - len(wanted) + number - 1]
                )
                break
        if not (
            done.redriven_count
            or done.duplicate_count
            or done.failures
            or answer.HasField("continue_after")
            or request.HasField("continue_after")
        ):
            await self._must_be_known(request.consumer_group)
        answer.redriven_count = done.redriven_count
        answer.duplicate_count = done.duplicate_count
        failures = (
            f"{queue.broker_name}/{queue.queue_id}/{offset}: {cause}"
            for (queue, offset), cause in (done.failures or {}).items()
        )
        answer.failures.extend(list(failures)[:FAILURES_MAX])
        return answer

    async def _stuck(self, group: str, done: Redrive) -> DeadlinePassed:
        """Why sending back does not go on, and what to do.

        Raises:
            CallError: No broker answers.
        """
        answers = await self._cluster.answers()
        await self._with_dead_letters(group, answers)
        who = " and ".join(f"broker {name}" for name in answers.unanswered) or "a broker"
        return DeadlinePassed(
            f"{who} does not go on; sent back: {counted(done.redriven_count, 'dead letter')};"
            " ask again for the others",
            retriable=True,
        )

    async def _look(self, search: _Search, brokers: Sequence[LiveBroker], answers: Answers) -> None:
        """Look for a page of dead letters, broker by broker, for as long as one call may."""
        end_s = asyncio.get_running_loop().time() + SEARCH_SECONDS_MAX
        for broker in brokers:
            if search.is_behind(broker):
                continue
            try:
                # If a broker fails while it is read, the reader tries for longer than callers wait.
                async with asyncio.timeout_at(end_s + CALL_SECONDS_MAX):
                    await self._read(search, broker, end_s)
            except (ServiceUnavailable, DeadlinePassed) as error:
                answers.leave_out(broker.broker_name, error)
            except TimeoutError:
                silent = DeadlinePassed(f"{broker_peer(broker)} does not go on", retriable=True)
                answers.leave_out(broker.broker_name, silent)
            if search.is_full or search.reached is not None:
                return

    async def _read(self, search: _Search, broker: LiveBroker, end_s: float) -> None:
        now_s = asyncio.get_running_loop().time
        reader = await self._cluster.reader()
        chunks = reader.chunks(search.group, search.wanted_of(broker))
        async with aclosing(chunks) as read:
            async for chunk in read:
                search.take(chunk)
                if search.is_full:
                    return
                if now_s() >= end_s:
                    search.reached = _place_at(chunk.queue, chunk.last)
                    return

    async def _with_dead_letters(self, group: str, answers: Answers) -> list[LiveBroker]:
        """The brokers that answer and have dead letters of a group, by name."""

        async def at(broker: LiveBroker) -> LiveBroker | None:
            try:
                await queue_bounds(self._doors, broker, dead_letter_topic(group))
            except TopicNotFound:
                return None
            return broker

        found = [broker for broker in await answers.ask(at) if broker is not None]
        return sorted(found, key=lambda broker: broker.broker_name)

    async def _must_be_known(self, group: str) -> None:
        """Refuse an unknown group without dead letters: its name may be mistyped.

        Raises:
            ServiceError: GROUP_NOT_FOUND.
        """
        answers = await self._cluster.answers()
        client = self._doors.client

        async def at(broker: LiveBroker) -> list[str]:
            only = [broker.broker_name]
            return await client.list_groups(include_system=True, broker_names=only)

        known = {name for names in await answers.ask(at) for name in names}
        if group not in known:
            raise group_not_found(group)


class _Search:
    """One call's search for a page of dead letters."""

    def __init__(
        self, request: letter_pb.ListDeadLettersRequest, wanted: DeadLetterFilter, page: PageRequest
    ) -> None:
        self.group = request.consumer_group
        """The group."""
        self.found: list[letter_pb.DeadLetter] = []
        """The dead letters found; one more than the page holds if there is another page."""
        self.reached: letter_pb.DeadLetterPlace | None = None
        """The place at which its time ended."""
        self._wanted = wanted
        self._page = page
        self._body_bytes_max = request.body_bytes_max

    @property
    def is_full(self) -> bool:
        """Whether enough was found."""
        return len(self.found) > self._page.limit

    def is_behind(self, broker: LiveBroker) -> bool:
        """Whether earlier pages had all dead letters of a broker."""
        last = self._page.last
        return last is not None and broker.broker_name < str(last[0])

    def wanted_of(self, broker: LiveBroker) -> DeadLetterFilter:
        """The dead letters of a broker that remain to be looked at."""
        here = replace(self._wanted, broker_name=broker.broker_name)
        last = self._page.last
        if last is None or last[0] != broker.broker_name:
            return here
        name, queue_id, queue_offset = last
        behind = _behind(self.group, str(name), int(queue_id), int(queue_offset))
        return replace(here, behind=behind)

    def take(self, chunk: DeadLetterChunk) -> None:
        """Add dead letters that were read, as far as they are needed."""
        room = self._page.limit + 1 - len(self.found)
        self.found += (
            _letter_message(letter, self._body_bytes_max) for letter in chunk.letters[:room]
        )


class _Progress:
    """Records the progress of sending back, and ends it at the limits of one call."""

    def __init__(self, is_enough: Callable[[Redrive], bool]) -> None:
        self.latest = Redrive()
        self._is_enough = is_enough

    def __call__(self, now: Redrive) -> None:
        self.latest = now
        if self._is_enough(now):
            raise _Enough


def _wanted(request: letter_pb.RedriveDeadLettersRequest) -> list[DeadLetterFilter]:
    """The remaining part of a request: one filter for each place, or one for its query.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    places = list(request.places)
    after = request.continue_after
    if places and request.HasField("continue_after"):
        if after not in places:
            raise field_invalid("continue_after", "must be one of the places")
        places = places[places.index(after) + 1 :]
    if request.places:
        return [
            DeadLetterFilter(
                broker_name=place.broker_name,
                dead_queue_id=place.queue_id,
                dead_queue_offset=place.queue_offset,
            )
            for place in places
        ]
    wanted = _filter(request.query)
    if request.HasField("continue_after"):
        place = after.broker_name, after.queue_id, after.queue_offset
        wanted = replace(wanted, behind=_behind(request.consumer_group, *place))
    return [wanted]


def _behind(
    group: str, broker_name: str, queue_id: int, queue_offset: int
) -> tuple[MessageQueue, int]:
    return MessageQueue(dead_letter_topic(group), broker_name, queue_id), queue_offset


def _take(done: Redrive, one: Redrive) -> None:
    done.redriven_count += one.redriven_count
    done.duplicate_count += one.duplicate_count
    done.failures = {**(done.failures or {}), **(one.failures or {})}


def _filter(query: letter_pb.DeadLetterQuery) -> DeadLetterFilter:
    return DeadLetterFilter(
        topic=query.origin_topic,
        key=query.key,
        reason=query.reason,
        begin=moment_in(query, "begin_time"),
        end=moment_in(query, "end_time"),
        redriven=None if query.include_redriven else False,
    )


def _place_of(letter: letter_pb.DeadLetter) -> tuple[str, int, int]:
    return _key_of(letter.place)


def _key_of(place: letter_pb.DeadLetterPlace) -> tuple[str, int, int]:
    return place.broker_name, place.queue_id, place.queue_offset


def _letter_message(letter: DeadLetter, body_bytes_max: int) -> letter_pb.DeadLetter:
    message, _ = message_of(letter.message, body_bytes_max=body_bytes_max)
    queue = letter.message_queue
    return letter_pb.DeadLetter(
        message=message,
        origin_topic=letter.topic,
        origin_message_id=letter.origin_message_id,
        reason=letter.reason,
        cause=letter.last_error,
        give_up_time=time_of(letter.message.store_timestamp_ms),
        redriven=letter.redriven,
        place=_place_at(queue, letter.message.queue_offset),
    )


def _place_at(queue: MessageQueue, queue_offset: int) -> letter_pb.DeadLetterPlace:
    return letter_pb.DeadLetterPlace(
        broker_name=queue.broker_name, queue_id=queue.queue_id, queue_offset=queue_offset
    )
