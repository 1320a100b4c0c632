"""The broker's queue locks: taking, renewing, giving back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ariane.broker.v1.queue_lock_pb2 import LockedQueue, LockQueuesRequest, UnlockQueuesRequest
from ariane_sdk.client.broker_calls import answer_of, peer_name, read_address
from ariane_sdk.client.session import Session
from ariane_sdk.consumer.group.consumer_plan import ConsumerPlan
from ariane_sdk.errors import CallError
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.timestamps import duration_s
from ariane_sdk.routing.route import BrokerRoute


class QueueLockCalls:
    """Calls brokers to lock queues for one member."""

    def __init__(self, session: Session, plan: ConsumerPlan) -> None:
        self._connections = session.connections
        self._failover = session.failover
        self._group = plan.group
        self._client_id = plan.client_id
        self._timeout_s = plan.settings.call_timeout_s

    async def lock(
        self, broker: BrokerRoute, queues: Sequence[MessageQueue]
    ) -> tuple[dict[MessageQueue, int], float]:
        """Take or renew locks.

        Returns:
            The epochs of the member's locks, and the length of their lease in seconds.

        Raises:
            CallError: The broker refused or did not answer.
        """
        request = LockQueuesRequest(
            consumer_group=self._group,
            client_id=self._client_id,
            queues=[LockedQueue(topic=q.topic, queue_id=q.queue_id) for q in queues],
        )
        clients = self._connections.clients(read_address(broker))
        try:
            response = await answer_of(
                clients.LockQueues(request, timeout=self._timeout_s), peer_name(broker)
            )
        except CallError as error:
            # Locks are asked for again and again; then by a newer route.
            self._failover.note(error, dict.fromkeys(queue.topic for queue in queues))
            raise
        epochs = {
            MessageQueue(entry.topic, broker.broker_name, entry.queue_id): entry.lock_epoch
            for entry in response.queues
        }
        return epochs, duration_s(response.lease)

    async def unlock(self, broker: BrokerRoute, epochs: Mapping[MessageQueue, int]) -> None:
        """Give locks back.

        Raises:
            CallError: The broker did not answer; the locks expire by themselves.
        """
        request = UnlockQueuesRequest(
            consumer_group=self._group,
            client_id=self._client_id,
            queues=[
                LockedQueue(topic=queue.topic, queue_id=queue.queue_id, lock_epoch=epoch)
                for queue, epoch in epochs.items()
            ],
        )
        clients = self._connections.clients(read_address(broker))
        await answer_of(clients.UnlockQueues(request, timeout=self._timeout_s), peer_name(broker))
