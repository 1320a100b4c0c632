"""The parts list of the broker: the one place that composes.

A broker is five rooms, each built by one function from those before it::

    state      topics, groups, offsets: in memory, and on the disk
    storing    the store, who waits on its disk, who is held until something arrives
    naming     what name servers are told
    changing   who may change topics, groups, offsets; who is attached
    messaging  messages in and out

and the services of the contract in front of them. Nothing here touches disk or network yet.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from ariane_broker.announcement import BrokerAnnouncement
from ariane_broker.append import AppendRecords
from ariane_broker.arrivals import Arrivals
from ariane_broker.broker_drain import BrokerDrain
from ariane_broker.broker_life import BrokerLife, Threads
from ariane_broker.client_admission import ClientAdmission
from ariane_broker.client_table import ClientTable
from ariane_broker.consumer_groups import ConsumerGroups
from ariane_broker.consumer_offsets import ConsumerOffsets
from ariane_broker.errors import STORAGE_RULES
from ariane_broker.group_changes import GroupChanges
from ariane_broker.group_flush import GroupFlush
from ariane_broker.held_requests import HeldRequests
from ariane_broker.message_query import MessageQuery
from ariane_broker.name_server_links import name_server_link
from ariane_broker.offset_changes import OffsetChanges
from ariane_broker.owned_store import OwnedStore
from ariane_broker.plain_send import SendMessages
from ariane_broker.pull import PullRecords
from ariane_broker.queue_lookup import QueueLookup
from ariane_broker.range_pull import PullRange
from ariane_broker.registration import Registration
from ariane_broker.rpc_services import rpc_service
from ariane_broker.saved_state import SavedState, StateFile
from ariane_broker.servicers.broker import BrokerParts, BrokerServicer
from ariane_broker.servicers.client import ClientServicer
from ariane_broker.servicers.group import GroupServicer
from ariane_broker.servicers.offset import OffsetServicer
from ariane_broker.servicers.pull import PullServicer
from ariane_broker.servicers.query import QueryServicer
from ariane_broker.servicers.send import SendServicer
from ariane_broker.servicers.topic import TopicServicer
from ariane_broker.servicers.unavailable import (
    ReceiveServicer,
    RetryServicer,
    TransactionServicer,
)
from ariane_broker.settings import BrokerSettings
from ariane_broker.state_files import BrokerState, StateFiles
from ariane_broker.statistics import BrokerStatistics
from ariane_broker.store_host import literal_host
from ariane_broker.store_keeping import FLUSH_TICK_SECONDS, StoreKeeping
from ariane_broker.system_topics import system_topics
from ariane_broker.topic_changes import TopicChanges
from ariane_broker.topic_table import TopicTable
from ariane_record import RecordBlock
from ariane_record.layout import BLANK_SIZE_MIN_BYTES, Host
from ariane_record.message_id import UniqueIdGenerator
from ariane_servicekit import (
    Clock,
    ErrorTranslator,
    ExitStatus,
    Loop,
    RpcService,
    StopRequest,
    SystemClock,
    get_logger,
)
from ariane_storage import state_file
from ariane_storage.block_check import check_block
from ariane_storage.disk import Disk
from ariane_storage.os_disk import OsDisk
from ariane_storage.store import Store
from ariane_storage.store_files import StoreFiles

PLAIN_CALL_BYTES_MAX: Final = 32 << 20
"""Bytes of all records that plain messages of one call may become."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Outside:
    """What a broker is given.

    Attributes:
        settings: What it was told.
        stop: How it ends the process when its disk fails.
        clock: Tells the time to everything but the store, which has its own.
        disk: Where everything is kept.
        threads: Where it waits on its disk.
    """

    settings: BrokerSettings
    stop: StopRequest
    clock: Clock
    disk: Disk
    threads: Threads


@dataclass(frozen=True, slots=True)
class StateRoom:
    """Topics, groups and offsets, in memory and on the disk."""

    topics: TopicTable
    groups: ConsumerGroups
    offsets: ConsumerOffsets
    files: StateFiles
    state: BrokerState
    saved_offsets: SavedState


@dataclass(frozen=True, slots=True)
class StoringRoom:
    """The store, who waits on its disk, who is held until something arrives."""

    store: OwnedStore
    held: HeldRequests
    arrivals: Arrivals
    group_flush: GroupFlush
    keeping: StoreKeeping
    statistics: BrokerStatistics


@dataclass(frozen=True, slots=True)
class NamingRoom:
    """What name servers are told."""

    announcement: BrokerAnnouncement
    registration: Registration


@dataclass(frozen=True, slots=True)
class ChangingRoom:
    """Who may change topics, groups and offsets; who is attached."""

    topic_changes: TopicChanges
    group_changes: GroupChanges
    offset_changes: OffsetChanges
    clients: ClientTable
    client_admission: ClientAdmission
    lookup: QueueLookup


@dataclass(frozen=True, slots=True)
class MessagingRoom:
    """Messages in and out."""

    append_records: AppendRecords
    send_messages: SendMessages
    pull_records: PullRecords
    pull_range: PullRange
    query: MessageQuery
    drain: BrokerDrain


def compose(settings: BrokerSettings, stop: StopRequest) -> BrokerLife:
    """Build a broker on the machine's own clock and disk."""
    threads = Threads(_thread("flusher"), _thread("keeper"), _thread("state"))
    return compose_from(Outside(settings, stop, SystemClock(), OsDisk(), threads))


def compose_from(outside: Outside) -> BrokerLife:
    """Build a broker."""
    settings, clock = outside.settings, outside.clock
    state = state_room(outside)
    storing = storing_room(outside)
    naming = naming_room(outside, state)
    changing = changing_room(outside, state, storing, naming)
    messaging = messaging_room(outside, state, storing, naming, changing)

    async def forget_silent_clients() -> None:
        for client in changing.clients.expire(settings.client_silence_s):
            _log.info("client_expired", client_id=client.client_id, address=client.address)

    return BrokerLife(
        rpc_services=rpc_services(outside, state, storing, naming, changing, messaging=messaging),
        store=storing.store,
        state=state.state,
        required_topics=system_topics(
            auto_create_topics=settings.auto_create_topics,
            default_queue_count=settings.default_queue_count,
        ),
        announcement=naming.announcement,
        registration=naming.registration,
        held=storing.held,
        clients=changing.clients,
        client_admission=changing.client_admission,
        group_flush=storing.group_flush,
        saved_offsets=state.saved_offsets,
        keeping=storing.keeping,
        loops=(
            Loop(
                "expire-clients",
                forget_silent_clients,
                interval_s=settings.client_scan_s,
                clock=clock,
            ),
            Loop(
                "save-offsets",
                state.saved_offsets.save,
                interval_s=settings.offset_save_s,
                clock=clock,
            ),
        ),
        threads=outside.threads,
        grace_seconds=settings.grace_s,
    )


def state_room(outside: Outside) -> StateRoom:
    """Topics, groups and offsets."""
    settings, now_ms = outside.settings, outside.clock.now_ms
    topics = TopicTable(now_ms=now_ms, default_queue_count=settings.default_queue_count)
    groups = ConsumerGroups(now_ms=now_ms)
    offsets = ConsumerOffsets(now_ms=now_ms)
    folder = StoreFiles(settings.store_path).config
    files = StateFiles(
        topics=state_file.StateFile(folder / "topics.json", outside.disk),
        offsets=state_file.StateFile(folder / "consumerOffset.json", outside.disk),
        groups=state_file.StateFile(folder / "subscriptionGroup.json", outside.disk),
    )
    state = BrokerState(
        files,
        topics,
        offsets,
        groups,
        outside.threads.state,
        accept_offset_loss=settings.accept_offset_loss,
    )
    saved_offsets = SavedState(files.offsets, offsets.document, outside.threads.state)
    return StateRoom(topics, groups, offsets, files, state, saved_offsets)


def storing_room(outside: Outside) -> StoringRoom:
    """The store and everything that waits for it."""
    settings, threads = outside.settings, outside.threads
    store = OwnedStore(partial(_open_store, settings, outside.disk))
    held = HeldRequests(count_max=settings.held_pulls_max)
    arrivals = Arrivals(store, held)

    told: set[str] = set()

    def flush_failed(error: BaseException) -> None:
        # Whoever asks a poisoned store meets the same failure: said once.
        if not told:
            _log.error("flush_failed", cause=str(error))
        told.add(str(error))
        outside.stop.request(str(error), exit_status=ExitStatus.FAULT)

    group_flush = GroupFlush(
        store,
        threads.flusher,
        timeout_seconds=settings.flush_wait_s,
        on_flushed=arrivals.confirm,
        on_failed=flush_failed,
    )
    keeping = StoreKeeping(
        store,
        threads.keeper,
        outside.clock,
        flush_tick_seconds=min(FLUSH_TICK_SECONDS, settings.flush_interval_ms / 1000),
        disk_refuse_ratio=settings.disk_refuse_ratio,
        on_flushed=arrivals.confirm,
        on_failed=flush_failed,
    )
    return StoringRoom(store, held, arrivals, group_flush, keeping, BrokerStatistics())


def naming_room(outside: Outside, state: StateRoom) -> NamingRoom:
    """What name servers are told."""
    settings = outside.settings
    incarnation = secrets.token_hex(8)
    announcement = BrokerAnnouncement(settings, state.topics, incarnation)
    links = [
        name_server_link(
            address,
            announcement,
            outside.clock,
            heartbeat_seconds=settings.name_server_heartbeat_s,
        )
        for address in settings.name_servers
    ]
    return NamingRoom(announcement, Registration(links, wait_seconds=settings.name_server_wait_s))


def changing_room(
    outside: Outside, state: StateRoom, storing: StoringRoom, naming: NamingRoom
) -> ChangingRoom:
    """Who may change topics, groups and offsets; who is attached."""
    settings, saved_offsets = outside.settings, state.saved_offsets

    async def forget_topic(topic: str) -> None:
        if state.offsets.remove_topic(topic):
            saved_offsets.mark_changed()
            await saved_offsets.save()

    async def forget_group(consumer_group: str) -> None:
        if state.offsets.remove_group(consumer_group):
            saved_offsets.mark_changed()
            await saved_offsets.save()

    topic_changes = TopicChanges(
        state.topics,
        save=_saver(state.files.topics, outside.threads.state),
        announce=naming.registration.announce,
        queues=storing.store,
        forget_offsets=forget_topic,
        wake_queue=storing.held.wake,
        auto_create_queue_count=settings.default_queue_count if settings.auto_create_topics else 0,
    )
    group_changes = GroupChanges(
        state.groups,
        save=_saver(state.files.groups, outside.threads.state),
        forget_offsets=forget_group,
        auto_create=settings.auto_create_groups,
    )
    clients = ClientTable(outside.clock, flags_conflicts=group_changes.flags_conflicts)
    lookup = QueueLookup(storing.store, state.topics)
    offset_changes = OffsetChanges(
        state.offsets,
        storing.store,
        state.topics,
        state.groups,
        group_changes=group_changes,
        clients=clients,
        lookup=lookup,
        mark_changed=saved_offsets.mark_changed,
        save=saved_offsets.save,
    )
    return ChangingRoom(
        topic_changes=topic_changes,
        group_changes=group_changes,
        offset_changes=offset_changes,
        clients=clients,
        client_admission=ClientAdmission(clients, group_changes),
        lookup=lookup,
    )


def messaging_room(
    outside: Outside,
    state: StateRoom,
    storing: StoringRoom,
    naming: NamingRoom,
    changing: ChangingRoom,
) -> MessagingRoom:
    """Messages in and out."""
    settings, clock, store = outside.settings, outside.clock, storing.store
    service_error = ErrorTranslator(STORAGE_RULES).service_error
    append_records = AppendRecords(
        store,
        changing.topic_changes,
        storing.arrivals,
        storing.statistics,
        check_block=_block_check(settings),
        on_growth=storing.keeping.appended,
        flush_wait=storing.group_flush if settings.flush_mode == "sync" else None,
        body_bytes_max=settings.message_bytes_max,
        service_error=service_error,
        monotonic=clock.monotonic,
    )
    unique_ids = UniqueIdGenerator(
        clock.now_ms, ip="127.0.0.1", pid=os.getpid(), origin=secrets.randbits(32)
    )
    send_messages = SendMessages(
        append_records,
        changing.topic_changes,
        next_unique_id=unique_ids.next_id,
        now_ms=clock.now_ms,
        body_bytes_max=settings.message_bytes_max,
        call_bytes_max=min(settings.segment_bytes - BLANK_SIZE_MIN_BYTES, PLAIN_CALL_BYTES_MAX),
    )
    pull_records = PullRecords(
        store,
        state.topics,
        storing.held,
        storing.statistics,
        check_group=changing.group_changes.check_may_consume,
        service_error=service_error,
        draw=random.Random(secrets.randbits(64)).randrange,  # noqa: S311 - fairness, no secret.
        monotonic=clock.monotonic,
    )
    return MessagingRoom(
        append_records=append_records,
        send_messages=send_messages,
        pull_records=pull_records,
        pull_range=PullRange(store, state.topics, storing.statistics),
        query=MessageQuery(
            store, state.topics, own_host=lambda: literal_host(naming.announcement.address)
        ),
        drain=BrokerDrain(append_records, naming.announcement, naming.registration.announce),
    )


def rpc_services(
    outside: Outside,
    state: StateRoom,
    storing: StoringRoom,
    naming: NamingRoom,
    changing: ChangingRoom,
    *,
    messaging: MessagingRoom,
) -> list[RpcService]:
    """The services of the contract, each with what answers for it."""
    settings, broker_name = outside.settings, outside.settings.broker_name
    asked = BrokerParts(
        settings=settings,
        announcement=naming.announcement,
        store=storing.store,
        keeping=storing.keeping,
        state=state.state,
        statistics=storing.statistics,
        held=storing.held,
        clients=changing.clients,
        drain=messaging.drain,
        version=version("ariane-broker"),
        start_time_ms=outside.clock.now_ms(),
    )
    servicers: dict[str, object] = {
        "BrokerService": BrokerServicer(asked),
        "ClientService": ClientServicer(
            changing.clients,
            changing.client_admission,
            broker_name=broker_name,
            heartbeat_seconds=settings.client_heartbeat_s,
            silence_seconds_max=settings.client_silence_s,
        ),
        "GroupService": GroupServicer(state.groups, changing.group_changes),
        "OffsetService": OffsetServicer(changing.offset_changes),
        "PullService": PullServicer(
            messaging.pull_records,
            messaging.pull_range,
            changing.lookup,
            broker_name=broker_name,
        ),
        "QueryService": QueryServicer(messaging.query, broker_name=broker_name),
        "ReceiveService": ReceiveServicer(),
        "RetryService": RetryServicer(),
        "SendService": SendServicer(
            messaging.append_records,
            messaging.send_messages,
            broker_name=broker_name,
            store_host=lambda: storing.store.store_host,
        ),
        "TopicService": TopicServicer(state.topics, changing.topic_changes, changing.lookup),
        "TransactionService": TransactionServicer(),
    }
    return [rpc_service(name, servicer) for name, servicer in servicers.items()]


def _thread(name: str) -> Executor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"ariane-{name}")


def _open_store(settings: BrokerSettings, disk: Disk, host: Host) -> Store:
    return Store.open(settings.store_path, settings.store_config(host), disk=disk)


def _block_check(settings: BrokerSettings) -> Callable[[RecordBlock], object]:
    config = settings.store_config(("127.0.0.1", 0))
    return partial(
        check_block,
        record_bytes_max=config.record_bytes_max,
        block_bytes_max=config.segment_bytes,
        checksum=config.checksum,
    )


def _saver(file: StateFile, executor: Executor) -> Callable[[dict[str, Any]], Awaitable[None]]:
    async def save(document: dict[str, Any]) -> None:
        await asyncio.get_running_loop().run_in_executor(executor, file.save, document)

    return save
