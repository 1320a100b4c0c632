"""The services of the contract, each with what answers for it."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import starmap

from ariane_broker.append.plain_message import call_bytes_of
from ariane_broker.append.room import AppendingRoom
from ariane_broker.clients.room import ChangingRoom
from ariane_broker.consuming.operator_questions import OperatorQuestions
from ariane_broker.delay.room import DelayingRoom
from ariane_broker.environment import Environment
from ariane_broker.errors.store_errors import STORAGE_RULES
from ariane_broker.log.room import StoringRoom
from ariane_broker.naming.room import NamingRoom
from ariane_broker.read.room import ReadingRoom
from ariane_broker.receive.room import ReceivingRoom
from ariane_broker.replication.operating import PrimaryOperations
from ariane_broker.replication.primary import Primary
from ariane_broker.replication.state_copies import StateCopies
from ariane_broker.retry.room import RetryingRoom
from ariane_broker.rpc.append_worker import AppendWorker
from ariane_broker.rpc.plain_send import SendMessages
from ariane_broker.rpc.producer_streams import ProducerStreams
from ariane_broker.rpc.rpc_services import rpc_service
from ariane_broker.rpc.servicers.broker_servicer import BrokerParts, BrokerServicer
from ariane_broker.rpc.servicers.client_servicer import ClientServicer
from ariane_broker.rpc.servicers.filter_registration_servicer import FilterRegistrationServicer
from ariane_broker.rpc.servicers.group_servicer import GroupServicer
from ariane_broker.rpc.servicers.offset_servicer import OffsetServicer
from ariane_broker.rpc.servicers.pull_servicer import PullServicer
from ariane_broker.rpc.servicers.query_servicer import QueryServicer
from ariane_broker.rpc.servicers.receive_servicer import ReceiveServicer
from ariane_broker.rpc.servicers.replication_servicers import (
    LogServicer,
    ReplicaSetServicer,
    StateServicer,
)
from ariane_broker.rpc.servicers.retry_servicer import RetryServicer
from ariane_broker.rpc.servicers.send_servicer import SendServicer
from ariane_broker.rpc.servicers.sink_servicer import SinkServicer
from ariane_broker.rpc.servicers.topic_servicer import TopicServicer
from ariane_broker.rpc.servicers.transaction_servicer import TransactionServicer
from ariane_broker.rpc.transaction_worker import TransactionWorker, WorkerParts
from ariane_broker.state.room import StateRoom
from ariane_broker.transactions.room import TransactingRoom
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_servicekit import AnswerBudget, ErrorTranslator, RpcService
from ariane_storage.store_files import StoreFiles


@dataclass(frozen=True, slots=True)
class RpcRoom:
    """The services of the contract, and the streams that are ended when the broker stops."""

    services: list[RpcService]
    append_streams: ProducerStreams
    transaction_streams: ProducerStreams


def rpc_room(
    environment: Environment,
    state: StateRoom,
    storing: StoringRoom,
    naming: NamingRoom,
    changing: ChangingRoom,
    *,
    delaying: DelayingRoom,
    appending: AppendingRoom,
    reading: ReadingRoom,
    transacting: TransactingRoom,
    retrying: RetryingRoom,
    receiving: ReceivingRoom,
) -> RpcRoom:
    """The services of the contract, each with what answers for it."""
    append_streams = ProducerStreams(partial(AppendWorker, appending.append_records))
    transaction_streams = _transaction_streams(environment, storing, transacting)
    broker_name = environment.settings.broker_name
    answers = AnswerBudget(environment.settings.answer_bytes_max)
    servicers: dict[str, object] = {
        "BrokerService": BrokerServicer(
            _asked(
                environment,
                state,
                storing,
                naming,
                changing,
                delaying=delaying,
                appending=appending,
            )
        ),
        "ClientService": _client_servicer(environment, changing, reading, transacting),
        "FilterRegistrationService": FilterRegistrationServicer(naming.filter_servers, broker_name),
        "GroupService": GroupServicer(
            state.groups, changing.group_changes, retrying.group_deletion
        ),
        "OffsetService": OffsetServicer(
            changing.offset_changes,
            changing.members,
            state.epochs,
            changing.unread,
            receiving.standings,
        ),
        "PullService": _pull_servicer(
            state, storing, changing, reading, answers=answers, broker_name=broker_name
        ),
        "QueryService": QueryServicer(reading.query, answers=answers, broker_name=broker_name),
        "ReceiveService": ReceiveServicer(receiving, answers=answers, broker_name=broker_name),
        "RetryService": RetryServicer(retrying.returns, retrying.redrive),
        "SendService": SendServicer(
            appending.append_records,
            append_streams,
            _plain_send(environment, storing, appending),
            appending.recall,
            broker_name=broker_name,
            store_host=lambda: storing.store.config.store_host,
        ),
        "SinkService": SinkServicer(transacting.sinks),
        "TopicService": TopicServicer(
            state.topics, changing.topic_changes, changing.lookup, changing.unread
        ),
        "TransactionService": _transaction_servicer(transacting, transaction_streams),
    }
    if storing.primary is not None:
        servicers |= _replication(environment, storing, storing.primary)
    services = list(starmap(rpc_service, servicers.items()))
    return RpcRoom(services, append_streams, transaction_streams)


def _transaction_servicer(
    transacting: TransactingRoom, streams: ProducerStreams
) -> TransactionServicer:
    return TransactionServicer(
        transacting.ends,
        streams,
        transacting.checks,
        transacting.list,
        transacting.batch_commits,
    )


def _pull_servicer(
    state: StateRoom,
    storing: StoringRoom,
    changing: ChangingRoom,
    reading: ReadingRoom,
    *,
    answers: AnswerBudget,
    broker_name: str,
) -> PullServicer:
    return PullServicer(
        reading.pull_records,
        storing.held,
        reading.pull_range,
        changing.lookup,
        epochs=state.epochs,
        answers=answers,
        broker_name=broker_name,
    )


def _replication(
    environment: Environment, storing: StoringRoom, primary: Primary
) -> dict[str, object]:
    """What a primary answers replicas and those who look after it."""
    settings, store = environment.settings, storing.store
    names = (settings.cluster_name, settings.broker_name)
    operations = PrimaryOperations(
        names,
        primary,
        primary.reign.row,
        monotonic=environment.clock.monotonic,
        on_resigned=lambda: environment.stop.request("the role was handed over", anew=True),
    )
    state = StateCopies(environment.disk, StoreFiles(settings.store_path).config)
    return {
        "LogService": LogServicer(
            primary,
            store,
            cluster_name=names[0],
            broker_name=names[1],
            lease_s=settings.primary_lease_s,
        ),
        "StateService": StateServicer(primary, store, state),
        "ReplicaSetService": ReplicaSetServicer(operations, store),
    }


def _transaction_streams(
    environment: Environment, storing: StoringRoom, transacting: TransactingRoom
) -> ProducerStreams:
    """Producers that have transactions under way."""
    settings = environment.settings
    parts = WorkerParts(
        log=storing.log,
        halves=transacting.halves,
        ends=transacting.ends,
        broker_name=settings.broker_name,
        now_ms=environment.clock.now_ms,
        body_bytes_max=settings.message_bytes_max,
        cluster_name=settings.cluster_name,
        service_error=ErrorTranslator(STORAGE_RULES).service_error,
    )
    return ProducerStreams(partial(TransactionWorker, parts))


def _client_servicer(
    environment: Environment,
    changing: ChangingRoom,
    reading: ReadingRoom,
    transacting: TransactingRoom,
) -> ClientServicer:
    return ClientServicer(
        changing.clients,
        changing.client_admission,
        changing.questions,
        changing.conflicts,
        changing.locking,
        operators=OperatorQuestions(
            changing.clients, changing.questions, message_of=reading.query.by_id
        ),
        members=changing.members,
        checks=transacting.checks,
        broker_name=environment.settings.broker_name,
        heartbeat_seconds=environment.settings.client_heartbeat_s,
        silence_seconds_max=environment.settings.client_silence_s,
    )


def _plain_send(
    environment: Environment, storing: StoringRoom, appending: AppendingRoom
) -> SendMessages:
    settings, clock = environment.settings, environment.clock
    origin = secrets.randbits(32)
    unique_ids = UniqueIdGenerator(clock.now_ms, ip="127.0.0.1", pid=os.getpid(), origin=origin)
    return SendMessages(
        appending.append_records,
        appending.topics_for_send,
        message_at=storing.store.message_at,
        next_unique_id=unique_ids.next_id,
        now_ms=clock.now_ms,
        body_bytes_max=settings.message_bytes_max,
        call_bytes_max=call_bytes_of(settings),
        cluster_name=settings.cluster_name,
    )


def _asked(
    environment: Environment,
    state: StateRoom,
    storing: StoringRoom,
    naming: NamingRoom,
    changing: ChangingRoom,
    *,
    delaying: DelayingRoom,
    appending: AppendingRoom,
) -> BrokerParts:
    """What an operator can ask about."""
    return BrokerParts(
        settings=environment.settings,
        announcement=naming.announcement,
        store=storing.store,
        keeping=storing.keeping,
        clock_watch=storing.clock_watch,
        state=state.state,
        statistics=storing.statistics,
        delayed=delaying.counts,
        held=storing.held,
        clients=changing.clients,
        drain=appending.drain,
        unread=changing.unread,
        version=version("ariane-broker"),
        start_time_ms=environment.clock.now_ms(),
    )
