"""The gRPC services of a broker, and how they are built."""

from __future__ import annotations

from importlib.metadata import version
from itertools import starmap

from ariane_broker.append.room import AppendRoom
from ariane_broker.clients.room import ClientsRoom
from ariane_broker.consuming.operator_questions import OperatorQuestions
from ariane_broker.delay.room import DelayRoom
from ariane_broker.environment import Environment
from ariane_broker.errors.store_errors import STORAGE_RULES
from ariane_broker.log.room import LogRoom
from ariane_broker.naming.room import NamingRoom
from ariane_broker.read.room import ReadRoom
from ariane_broker.replication.primary import Primary
from ariane_broker.replication.room import primary_operations
from ariane_broker.replication.state_copies import StateCopies
from ariane_broker.rooms import Rooms
from ariane_broker.rpc.plain_send import SendMessages
from ariane_broker.rpc.rpc_services import rpc_service
from ariane_broker.rpc.servicers.broker_servicer import BrokerParts, BrokerServicer
from ariane_broker.rpc.servicers.client_servicer import ClientServicer
from ariane_broker.rpc.servicers.filter_registration_servicer import FilterRegistrationServicer
from ariane_broker.rpc.servicers.group_servicer import GroupServicer
from ariane_broker.rpc.servicers.offset_servicer import OffsetServicer
from ariane_broker.rpc.servicers.pull_servicer import PullServicer
from ariane_broker.rpc.servicers.query_servicer import QueryServicer
from ariane_broker.rpc.servicers.quota_uses import BrokerQuotas
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
from ariane_broker.rpc.transaction_updates import TransactionUpdates
from ariane_broker.state.room import StateRoom
from ariane_broker.transactions.room import TransactionsRoom
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_servicekit import AnswerBudget, ErrorTranslator, RpcService
from ariane_storage.store_files import StoreFiles


def rpc_room(environment: Environment, rooms: Rooms) -> list[RpcService]:
    """Build the gRPC services of a broker."""
    log, state, naming, clients = rooms.log, rooms.state, rooms.naming, rooms.clients
    append, read, transactions = rooms.append, rooms.read, rooms.transactions
    broker_name = environment.settings.broker_name
    answers = AnswerBudget(environment.settings.answer_bytes_max)
    servicers: dict[str, object] = {
        "BrokerService": BrokerServicer(
            _asked(environment, state, log, naming, clients, delay=rooms.delay, append=append)
        ),
        "ClientService": _client_servicer(environment, clients, read, transactions),
        "FilterRegistrationService": FilterRegistrationServicer(naming.filter_servers, broker_name),
        "GroupService": GroupServicer(
            state.groups, clients.group_changes, rooms.retry.group_deletion
        ),
        "OffsetService": OffsetServicer(
            clients,
            state.epochs,
            rooms.receive.standings,
            expired_counts=log.statistics.expired_counts,
            stream_queries=state.stream_queries,
        ),
        "PullService": _pull_servicer(environment, state, log, clients, read, answers=answers),
        "QueryService": QueryServicer(
            read.query, rooms.delay.waiting, answers=answers, broker_name=broker_name
        ),
        "ReceiveService": ReceiveServicer(rooms.receive, answers=answers, broker_name=broker_name),
        "RetryService": RetryServicer(rooms.retry.returns, rooms.retry.redrive),
        "SendService": SendServicer(
            append.append_records,
            _plain_send(environment, log, clients, append),
            append.recall,
            clients.producers,
            broker_name=broker_name,
            store_host=lambda: log.store.config.store_host,
        ),
        "SinkService": SinkServicer(rooms.spark_batches.sinks, rooms.spark_batches.parts),
        "TopicService": TopicServicer(
            state.topics, clients.topic_changes, clients.lookup, clients.unread
        ),
        "TransactionService": TransactionServicer(
            transactions.ends,
            _transaction_updates(environment, log, transactions),
            transactions.checks,
            transactions.list,
            staging=rooms.spark_batches.staging,
            batches=rooms.spark_batches.commits,
        ),
    }
    if log.primary is not None:
        servicers |= _replication(environment, state, log, log.primary, clients)
    return list(starmap(rpc_service, servicers.items()))


def _pull_servicer(
    environment: Environment,
    state: StateRoom,
    log: LogRoom,
    clients: ClientsRoom,
    read: ReadRoom,
    *,
    answers: AnswerBudget,
) -> PullServicer:
    return PullServicer(
        read.pull_records,
        log.held,
        read.pull_range,
        clients.lookup,
        epochs=state.epochs,
        answers=answers,
        broker_name=environment.settings.broker_name,
        now_ms=environment.store_clock.now_ms,
    )


def _replication(
    environment: Environment,
    state: StateRoom,
    log: LogRoom,
    primary: Primary,
    clients: ClientsRoom,
) -> dict[str, object]:
    """The services of a primary for replicas and for operators."""
    settings, store = environment.settings, log.store
    names = (settings.cluster_name, settings.broker_name)
    operations = primary_operations(
        environment, primary, state.saved_offsets.save, clients.farewell.notify
    )
    copies = StateCopies(environment.disk, StoreFiles(settings.store_path).config)
    return {
        "LogService": LogServicer(
            primary,
            store,
            log.cold_reads,
            cluster_name=names[0],
            broker_name=names[1],
            lease_s=settings.primary_lease_s,
        ),
        "StateService": StateServicer(primary, store, copies),
        "ReplicaSetService": ReplicaSetServicer(operations, store),
    }


def _transaction_updates(
    environment: Environment, log: LogRoom, transactions: TransactionsRoom
) -> TransactionUpdates:
    return TransactionUpdates(
        log=log.broker_log,
        ends=transactions.ends,
        broker_name=environment.settings.broker_name,
        service_error=ErrorTranslator(STORAGE_RULES).service_error,
    )


def _client_servicer(
    environment: Environment,
    clients: ClientsRoom,
    read: ReadRoom,
    transactions: TransactionsRoom,
) -> ClientServicer:
    return ClientServicer(
        clients,
        OperatorQuestions(clients.table, clients.questions, message_of=read.query.by_id),
        transactions.checks,
        broker_name=environment.settings.broker_name,
        heartbeat_seconds=environment.settings.client_heartbeat_s,
        silence_seconds_max=environment.settings.client_silence_s,
    )


def _plain_send(
    environment: Environment, log: LogRoom, clients: ClientsRoom, append: AppendRoom
) -> SendMessages:
    settings, clock = environment.settings, environment.clock
    unique_ids = UniqueIdGenerator(
        clock.now_ms,
        ip="127.0.0.1",
        pid=environment.disk.process_id(),
        origin=environment.chance.getrandbits(32),
    )
    return SendMessages(
        append.append_records,
        clients.topic_changes,
        message_at=log.store.message_at,
        unique_ids=unique_ids,
        now_ms=clock.now_ms,
        body_bytes_max=settings.message_bytes_max,
        call_bytes_max=settings.call_bytes_max,
        cluster_name=settings.cluster_name,
    )


def _asked(
    environment: Environment,
    state: StateRoom,
    log: LogRoom,
    naming: NamingRoom,
    clients: ClientsRoom,
    *,
    delay: DelayRoom,
    append: AppendRoom,
) -> BrokerParts:
    """The parts that operators can ask about."""
    return BrokerParts(
        settings=environment.settings,
        announcement=naming.announcement,
        store=log.store,
        keeping=log.keeping,
        clock_watch=log.clock_watch,
        state=state.state,
        statistics=log.statistics,
        delayed=delay.counts,
        held=log.held,
        clients=clients.table,
        drain=append.drain,
        unread=clients.unread,
        quotas=BrokerQuotas(state.topics, state.groups, append.stored),
        version=version("ariane-broker"),
        start_time_ms=environment.clock.now_ms(),
    )
