"""``ClientService``: attached clients, their memberships, and notices to them."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import starmap
from operator import attrgetter
from typing import Any, Final, TypeAlias

from grpc import aio

from ariane.broker.v1 import client_question_pb2 as question_pb
from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import queue_lock_pb2 as lock_pb
from ariane.broker.v1 import topic_producer_pb2 as producer_pb
from ariane.broker.v1.client_service_pb2_grpc import ClientServiceServicer
from ariane_broker.clients.attached_client import AttachedClient
from ariane_broker.clients.client_table import ConflictSide
from ariane_broker.clients.members.absent_members import AbsentMember
from ariane_broker.clients.outbox import (
    BrokerDraining,
    ClientStateAsked,
    ConsumptionAsked,
    ForRelayed,
    HeartbeatHeard,
    MembershipChanged,
    Notice,
    OffsetsReset,
    PlainNotice,
    TransactionAsked,
)
from ariane_broker.clients.producers import TopicProducer
from ariane_broker.clients.relayed_clients import Relayed, RelayedClients, RelayedOutbox
from ariane_broker.clients.room import ClientsRoom
from ariane_broker.clients.subscription_conflicts import SeenConflict, key_of
from ariane_broker.consuming.operator_questions import OperatorQuestions
from ariane_broker.queue_key import QueueKey
from ariane_broker.rpc.peer_address import host_text, peer_text
from ariane_broker.rpc.translation.question_wire import (
    bounded_answer,
    bounded_state,
    consumption_of,
    hold_message,
    holds_of,
)
from ariane_broker.rpc.translation.subscription_wire import (
    hello_of,
    membership_message,
    memberships_of,
)
from ariane_broker.rpc.translation.transaction_wire import answer_of, check_of
from ariane_broker.rpc.translation.wire_time import seconds_of, span_of, time_of
from ariane_broker.transactions.checking import TransactionChecks
from ariane_servicekit import PageRequest, field_invalid, first_request, in_turns
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.rpc.pages import Page
from ariane_servicekit.security.gate.asking import require_gateway

_MEMBERS_DEFAULT: Final = 1000
_RELAYED_MAX: Final = 4096


class ClientServicer(ClientServiceServicer):
    """Receives heartbeats, and sends notices."""

    def __init__(
        self,
        clients: ClientsRoom,
        operators: OperatorQuestions,
        checks: TransactionChecks,
        *,
        broker_name: str,
        heartbeat_seconds: float,
        silence_seconds_max: float,
    ) -> None:
        self._table = clients.table
        self._admission = clients.client_admission
        self._questions = clients.questions
        self._conflicts = clients.conflicts
        self._locking = clients.locking
        self._farewell = clients.farewell
        self._lost = clients.group_changes.lost
        self._members = clients.members
        self._returning = clients.returning
        self._producers = clients.producers
        self._operators = operators
        self._checks = checks
        self._accepted = client_pb.AttachResponse(
            accepted=client_pb.AttachAccepted(
                broker_name=broker_name,
                heartbeat_interval=span_of(heartbeat_seconds),
                silence_max=span_of(silence_seconds_max),
            )
        )

    async def Attach(
        self,
        request_iterator: AsyncIterator[client_pb.AttachRequest],
        context: aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[client_pb.AttachResponse]:
        """Attach a client for as long as the stream lasts."""
        first = await first_request(anext(request_iterator, None))
        if first is None or first.WhichOneof("content") != "hello":
            raise field_invalid("hello", "must come first")
        hello = hello_of(first.hello)
        del first  # The stream may stay idle for long.
        client = await self._admission.attach(hello, peer_text(context.peer()))
        self._members.came_back(client)
        relayed = RelayedClients(client, self._table, self._admission, self._questions)
        listening = asyncio.create_task(self._listen(request_iterator, client, relayed))
        try:
            yield self._accepted_now(client)
            while (notice := await client.outbox.take()) is not None:
                yield self._response(notice, reads_records=hello.reads_records)
                del notice  # Not kept while the next one is awaited.
            if listening.done():
                # The stream ends like the listening task: by an error, or by the client's goodbye.
                await listening
        finally:
            relayed.close()
            self._let_go(client, listening)
            listening.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await listening

    def _accepted_now(self, client: AttachedClient) -> client_pb.AttachResponse:
        left_s = self._returning.left_s(client.memberships)
        if not left_s:
            return self._accepted
        response = client_pb.AttachResponse()
        response.CopyFrom(self._accepted)
        response.accepted.others_return.CopyFrom(span_of(left_s))
        return response

    async def ListGroupMembers(
        self, request: client_pb.ListGroupMembersRequest, context: aio.ServicerContext[Any, Any]
    ) -> client_pb.ListGroupMembersResponse:
        """List the live members of a group."""
        group = request.consumer_group
        wanted = PageRequest.of(
            page_size=request.page_size or _MEMBERS_DEFAULT,
            page_token=request.page_token,
            scope=f"members:{group}",
            kinds=(str,),
        )
        living = {client.client_id for client in self._table.walk(group)}
        away = [each for each in self._table.absent(group) if each.client_id not in living]
        members: list[_Member] = [*self._table.walk(group), *away]
        page: Page[_Member] = await wanted.page_in_turns(members, _by_id)
        return client_pb.ListGroupMembersResponse(
            members=await in_turns(self._member(member, group) for member in page.entries),
            next_page_token=page.next_page_token,
        )

    async def ListClients(
        self, request: client_pb.ListClientsRequest, context: aio.ServicerContext[Any, Any]
    ) -> client_pb.ListClientsResponse:
        """List attached clients."""
        wanted = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope="clients",
            kinds=(str,),
        )
        page = await wanted.page_in_turns(self._table.walk(), _by_id)
        return client_pb.ListClientsResponse(
            clients=await in_turns(map(self._client_message, page.entries)),
            next_page_token=page.next_page_token,
        )

    def _member(self, client: _Member, group: str) -> client_pb.GroupMember | None:
        if isinstance(client, AbsentMember):
            return client_pb.GroupMember(
                client_id=client.client_id,
                membership=membership_message(client.membership),
                address=client.address,
                away=True,
            )
        membership = client.memberships.get(group)
        if membership is None:
            return None  # It has left meanwhile.
        return client_pb.GroupMember(
            client_id=client.client_id,
            membership=membership_message(membership),
            address=client.address,
            holds=[
                hold_message(hold, self._table.since_holds_ms(client))
                for hold in client.holds
                if hold.consumer_group == group
            ],
        )

    def _client_message(self, client: AttachedClient) -> client_pb.AttachedClient:
        return client_pb.AttachedClient(
            hello=client_pb.ClientHello(
                client_id=client.client_id,
                language=client.language,
                sdk_version=client.sdk_version,
                producer_groups=client.producer_groups,
                memberships=map(membership_message, client.memberships.values()),
            ),
            address=client.address,
            attach_time=time_of(client.attach_time_ms),
            last_heard_time=time_of(client.last_heard_ms),
            holds=[hold_message(hold, self._table.since_holds_ms(client)) for hold in client.holds],
            gateways=_gateways_of(client),
        )

    async def ListProducers(
        self, request: producer_pb.ListProducersRequest, context: aio.ServicerContext[Any, Any]
    ) -> producer_pb.ListProducersResponse:
        """List who sends messages."""
        wanted = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"producers:{request.topic}",
            kinds=(str,) * 5,
        )
        page = await wanted.page_in_turns(self._producers.walk(request.topic), attrgetter("key"))
        now_ms = self._producers.now_ms()
        return producer_pb.ListProducersResponse(
            producers=await in_turns(_producer_message(each, now_ms) for each in page.entries),
            next_page_token=page.next_page_token,
        )

    async def GetClientState(
        self, request: client_pb.GetClientStateRequest, context: aio.ServicerContext[Any, Any]
    ) -> client_pb.GetClientStateResponse:
        """Ask a client for its state."""
        wait_seconds = seconds_of(request.wait_duration, "wait_duration")
        state: question_pb.ClientState = await self._operators.state(
            request.client_id, wait_seconds, with_stacks=request.with_stacks
        )
        return client_pb.GetClientStateResponse(state=bounded_state(state))

    async def ConsumeMessage(
        self, request: client_pb.ConsumeMessageRequest, context: aio.ServicerContext[Any, Any]
    ) -> client_pb.ConsumeMessageResponse:
        """Let a member of a group consume a message beside its own work."""
        wait_seconds = seconds_of(request.wait_duration, "wait_duration")
        answer: question_pb.ConsumeAnswer = await self._operators.consume(
            request.consumer_group, request.client_id, request.message_id, wait_seconds
        )
        return client_pb.ConsumeMessageResponse(answer=bounded_answer(answer))

    async def ListSubscriptionConflicts(
        self,
        request: client_pb.ListSubscriptionConflictsRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> client_pb.ListSubscriptionConflictsResponse:
        """List conflicts of subscriptions."""
        wanted = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"conflicts:{request.consumer_group}",
            kinds=(str, str, str),
        )
        page = await wanted.page_in_turns(
            self._conflicts.walk(self._table, request.consumer_group), key_of
        )
        return client_pb.ListSubscriptionConflictsResponse(
            conflicts=await in_turns(map(_conflict_message, page.entries)),
            next_page_token=page.next_page_token,
        )

    async def LockQueues(
        self, request: lock_pb.LockQueuesRequest, context: aio.ServicerContext[Any, Any]
    ) -> lock_pb.LockQueuesResponse:
        """Lock queues, or renew their locks."""
        queues = await in_turns(QueueKey(queue.topic, queue.queue_id) for queue in request.queues)
        owned = await self._locking.lock(request.consumer_group, request.client_id, queues)
        return lock_pb.LockQueuesResponse(
            queues=await in_turns(starmap(_locked_queue, owned.items())),
            lease=span_of(self._locking.relied_seconds),
        )

    async def UnlockQueues(
        self, request: lock_pb.UnlockQueuesRequest, context: aio.ServicerContext[Any, Any]
    ) -> lock_pb.UnlockQueuesResponse:
        """Release locks."""
        queues = await in_turns(
            (QueueKey(queue.topic, queue.queue_id), queue.lock_epoch) for queue in request.queues
        )
        count = await self._locking.unlock(request.consumer_group, request.client_id, dict(queues))
        return lock_pb.UnlockQueuesResponse(queue_count=count)

    def _response(self, notice: Notice, *, reads_records: bool) -> client_pb.AttachResponse:
        """A notice, as the client reads it."""
        broker_name = self._accepted.accepted.broker_name
        if isinstance(notice, ForRelayed):
            response = self._response(notice.notice, reads_records=reads_records)
            response.client_id = notice.client_id
            return response
        if isinstance(notice, TransactionAsked):
            check = check_of(notice, broker_name=broker_name, reads_records=reads_records)
            return client_pb.AttachResponse(transaction_check=check)
        if isinstance(notice, ConsumptionAsked):
            asked = consumption_of(notice, broker_name=broker_name, reads_records=reads_records)
            return client_pb.AttachResponse(consume_question=asked)
        return _notice_message(notice)

    def _let_go(self, client: AttachedClient, listening: asyncio.Task[None]) -> None:
        """Detach a client whose stream ends; a broken stream may mean that the client is dead."""
        if not (client.has_left or _is_refused(listening)):
            now = self._table.find(client.client_id)
            if now is None or now is client:
                self._lost.note_lost(client.client_id, client.incarnation)
            if now is client and not self._admission.draining:
                self._members.vanished(client)
        self._table.detach(client)
        self._farewell.parted(client)

    async def _listen(
        self,
        requests: AsyncIterator[client_pb.AttachRequest],
        client: AttachedClient,
        relayed: RelayedClients,
    ) -> None:
        """Read a client's requests until its goodbye, or until an invalid request."""
        try:
            async for request in requests:
                self._table.note_heartbeat(client)
                content = request.WhichOneof("content")
                if content == "heartbeat":
                    if request.heartbeat.memberships_changed:
                        memberships = memberships_of(request.heartbeat.memberships)
                        await self._admission.change_memberships(client, memberships)
                    client.holds = holds_of(request.heartbeat.holds, client.memberships)
                    client.holds_reported_s = client.last_heard
                    client.outbox.put(HeartbeatHeard())
                    if request.heartbeat.offsets_stored:
                        self._farewell.parted(client)
                    await in_turns(relayed.note_heartbeat())
                elif content == "relayed_clients":
                    await _take_relayed(request.relayed_clients, relayed)
                elif content == "goodbye":
                    client.has_left = True
                elif content == "hello":
                    raise field_invalid("hello", "must come once")
                else:
                    speaker = relayed.find(request.client_id) if request.client_id else client
                    if speaker is not None:
                        self._take_answer(request, speaker)
                del request  # Not kept while the next one is awaited.
        finally:
            client.outbox.close()
            # Here, since the end of `Attach` itself may be late: if a stream breaks while it
            # yields a notice, its generator ends only when it is garbage-collected.
            self._questions.left(client)

    def _take_answer(self, request: client_pb.AttachRequest, speaker: AttachedClient) -> None:
        """Deliver the answer of a client, attached or relayed."""
        content = request.WhichOneof("content")
        if content == "transaction_answer":
            outcome = request.transaction_answer
            answer = answer_of(outcome.outcome)
            self._checks.answered(speaker, outcome.transaction_id, answer, outcome.cause)
        elif content == "state":
            self._questions.answered(speaker, request.state.question_id, request.state)
        elif content == "consume_answer":
            consumed = request.consume_answer
            self._questions.answered(speaker, consumed.question_id, consumed)


async def _take_relayed(clients: client_pb.RelayedClients, relayed: RelayedClients) -> None:
    """Note what a gateway reports of its clients."""
    require_gateway()
    if len(clients.present) > _RELAYED_MAX:
        raise field_invalid("relayed_clients.present", f"must be at most {_RELAYED_MAX}")
    for each in clients.present:
        await relayed.note_present(
            Relayed(hello_of(each.hello), each.address, each.reachable, each.user)
        )
    for client_id in clients.left:
        relayed.note_left(client_id)
    await in_turns(relayed.note_silent(clients.silent))


def _gateways_of(client: AttachedClient) -> list[str]:
    """The gateways by way of which a client is here."""
    if not isinstance(client.outbox, RelayedOutbox):
        return []
    return [gateway.client_id for gateway in client.outbox.gateways]


_Member: TypeAlias = AttachedClient | AbsentMember


def _locked_queue(queue: QueueKey, epoch: int) -> lock_pb.LockedQueue:
    return lock_pb.LockedQueue(topic=queue.topic, queue_id=queue.queue_id, lock_epoch=epoch)


def _by_id(client: _Member) -> tuple[str]:
    return (client.client_id,)


def _is_refused(listening: asyncio.Task[None]) -> bool:
    """Whether a stream ended because the client broke the protocol."""
    over = listening.done() and not listening.cancelled()
    return over and isinstance(listening.exception(), ServiceError)


def _notice_message(notice: PlainNotice) -> client_pb.AttachResponse:
    match notice:
        case MembershipChanged(group):
            changed = client_pb.MembershipChanged(consumer_group=group)
            return client_pb.AttachResponse(membership_changed=changed)
        case OffsetsReset(group, topic, offsets):
            reset = client_pb.OffsetsReset(
                consumer_group=group, topic=topic, queue_offsets=dict(offsets)
            )
            return client_pb.AttachResponse(offsets_reset=reset)
        case BrokerDraining(grace_seconds):
            draining = client_pb.BrokerDraining(grace=span_of(grace_seconds))
            return client_pb.AttachResponse(broker_draining=draining)
        case ClientStateAsked(question_id, with_stacks):
            question = question_pb.ClientStateQuestion(
                question_id=question_id, with_stacks=with_stacks
            )
            return client_pb.AttachResponse(state_question=question)
        case HeartbeatHeard():
            accepted = client_pb.HeartbeatAccepted()
            return client_pb.AttachResponse(heartbeat_accepted=accepted)


def _producer_message(producer: TopicProducer, now_ms: int) -> producer_pb.TopicProducer:
    client, agent = producer.client, producer.client.agent
    return producer_pb.TopicProducer(
        topic=producer.topic,
        client_id=agent.client_id,
        producer_group=agent.producer_group,
        agent=agent.name,
        address=host_text(client.address),
        user=client.user,
        message_count=producer.message_count,
        first_time=time_of(producer.first_ms),
        last_time=time_of(producer.last_ms),
        messages_per_second=producer.per_second(now_ms),
    )


def _conflict_message(seen: SeenConflict) -> client_pb.SubscriptionConflict:
    conflict = seen.conflict
    return client_pb.SubscriptionConflict(
        consumer_group=conflict.newcomer.membership.consumer_group,
        member=_side_message(conflict.member),
        newcomer=_side_message(conflict.newcomer),
        difference=conflict.difference,
        refused=seen.refused,
        count=seen.count,
        last_time=time_of(seen.last_ms),
    )


def _side_message(side: ConflictSide) -> client_pb.GroupMember:
    return client_pb.GroupMember(
        client_id=side.client_id,
        membership=membership_message(side.membership),
        address=side.address,
    )
