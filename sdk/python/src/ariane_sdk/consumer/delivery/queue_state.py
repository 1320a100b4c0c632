"""One queue that a consumer owns, as operators are told of it."""

from __future__ import annotations

from ariane.broker.v1.client_question_pb2 import ClientQueueState
from ariane_sdk.consumer.delivery.owned_queue import OwnedQueue


def state_of(work: OwnedQueue, now_s: float) -> ClientQueueState:
    """How far a queue is, and what of it is unfinished.

    Args:
        work: The queue.
        now_s: The loop's time.
    """
    queue, window = work.queue, work.window
    state = ClientQueueState(
        topic=queue.topic,
        broker_name=queue.broker_name,
        queue_id=queue.queue_id,
        consumer_offset=work.done_offset,
        next_pull_offset=window.next_pull_offset,
        in_flight_count=work.in_flight_count,
        waiting_count=work.waiting_count,
        size_bytes=window.size_bytes,
        paused=work.paused,
    )
    if (oldest_ms := window.oldest_store_ms) is not None:
        state.oldest_store_time.FromMilliseconds(oldest_ms)
    if work.pulled_s is not None:
        state.since_pull.FromMilliseconds(round((now_s - work.pulled_s) * 1000))
    if work.delivered_s is not None:
        state.since_delivery.FromMilliseconds(round((now_s - work.delivered_s) * 1000))
    return state
