"""What calls are charged for, and how long they wait for it.

::

    owes more than it may wait for    -> QUOTA_EXCEEDED, with when to come again; nothing was done
    owes less                         -> is served, charged, and answered when all is paid

An answer waits half of the time that its deadline leaves at most: it is never lost to the delay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from ariane_servicekit.errors import ServiceError
from ariane_servicekit.rpc.calls import Call, current_call
from ariane_servicekit.security.caller import CallerKind
from ariane_servicekit.security.limits.connections import Connections
from ariane_servicekit.security.limits.meter import CALLS, RECEIVED, SENT, Meter
from ariane_servicekit.security.limits.name_room import NameRoom
from ariane_servicekit.security.limits.quotas import WAIT_S_MAX, Quotas, quota_exceeded


def enter(call: Call, quotas: Quotas, connections: Connections) -> None:
    """Charge a judged call, and its connection, to its user.

    Raises:
        ServiceError: QUOTA_EXCEEDED.
    """
    caller = call.caller
    if caller.kind is not CallerKind.USER:
        return
    # A member that acts for users has a connection for all of them.
    if quotas.limits_connections and caller.acting is None:
        connections.take(call.context.identity(), caller.name)  # type: ignore[attr-defined]
    meter = quotas.user(caller.name)
    if meter is not None:
        _check(call, meter, quotas.now_s())
        meter.charge(CALLS, 1, quotas.now_s())
        call.meter = meter
        call.owing = (meter,)


def charges_topics() -> bool:
    """Whether the call in work is charged to topics at all."""
    call = current_call()
    return call is not None and call.gate is not None and call.gate.quotas.limits_topics


def check_topics(topics: Iterable[str]) -> None:
    """Refuse to store in topics that owe more than the call may wait for.

    Raises:
        ServiceError: QUOTA_EXCEEDED.
    """
    call, quotas = _place()
    if call is None or quotas is None:
        return
    now_s = quotas.now_s()
    for topic in set(topics):
        meter = quotas.topic(topic)
        if meter is not None:
            _check(call, meter, now_s, SENT, CALLS)


def charge_stored(topics: Sequence[str], edges: Sequence[int]) -> None:
    """Charge batches to the topics that they were stored in; the call waits for that.

    Args:
        topics: Of each batch.
        edges: Where each begins in the log, in bytes, and the end of the last.
    """
    call, quotas = _place()
    if call is None or quotas is None:
        return
    now_s = quotas.now_s()
    for topic, begin, end in zip(topics, edges, edges[1:], strict=False):
        meter = quotas.topic(topic)
        if meter is not None:
            meter.charge(SENT, end - begin, now_s)
            meter.charge(CALLS, 1, now_s)
            _owe(call, meter)


def charge_handed_out(sizes: Iterable[tuple[str, int]]) -> None:
    """Charge records to the topics that they were read from; the call waits for that.

    Args:
        sizes: Topics and bytes; looked at only where topics have quotas.
    """
    call, quotas = _place()
    if call is None or quotas is None:
        return
    now_s = quotas.now_s()
    for topic, size_bytes in sizes:
        meter = quotas.topic(topic) if size_bytes else None
        if meter is not None:
            meter.charge(RECEIVED, size_bytes, now_s)
            _owe(call, meter)


def charge_request(call: Call, octets: bytes) -> None:
    """Charge a request to the user of its call."""
    call.meter.charge(SENT, len(octets), call.gate.quotas.now_s())


def charge_answer(call: Call, octets: bytes) -> None:
    """Charge an answer to the user of its call: the next one waits for it."""
    call.meter.charge(RECEIVED, len(octets), call.gate.quotas.now_s())


async def wait_for_quotas(call: Call) -> None:
    """Wait until what a call was charged for is paid, as long as it may."""
    quotas = call.gate.quotas
    now_s = quotas.now_s()
    meter = max(call.owing, key=lambda each: each.debt_s(now_s))
    debt_s = meter.debt_s(now_s)
    if debt_s:
        wait_s = min(debt_s, _bound_s(call))
        figure, limit = meter.worst(now_s)
        quotas.uses.note(figure, meter.subject, meter.name, limit, waited_s=wait_s)
        await asyncio.sleep(wait_s)


def name_room(figure: int) -> NameRoom:
    """Room for new topics or groups by the quotas of their beginnings; all of it outside calls.

    Args:
        figure: TOPICS or GROUPS.
    """
    call = current_call()
    if call is None or call.gate is None:
        return NameRoom(figure, {})
    return NameRoom(figure, call.gate.quotas.prefixes(figure), exceeded=refused_by_quota)


def refused_by_quota(
    figure: int, subject: int, name: str, limit: int, wait_s: float | None = None
) -> ServiceError:
    """As ``quota_exceeded``, and noted among the uses: once for a call, whatever its rows are."""
    call = current_call()
    key = (figure, subject, name)
    if call is not None and call.gate is not None and key not in call.refused_by:
        call.refused_by = (*call.refused_by, key)
        call.gate.quotas.uses.note(*key, limit)
    return quota_exceeded(*key, limit, wait_s)


def _place() -> tuple[Call | None, Quotas | None]:
    """The call in work, and the quotas of its process if these limit topics."""
    call = current_call()
    if call is None or call.gate is None or not call.gate.quotas.limits_topics:
        return None, None
    return call, call.gate.quotas


def _check(call: Call, meter: Meter, now_s: float, *figures: int) -> None:
    debt_s = meter.debt_s(now_s, *figures)
    if debt_s and debt_s > (bound_s := _bound_s(call)):
        figure, limit = meter.worst(now_s, *figures)
        raise refused_by_quota(figure, meter.subject, meter.name, limit, debt_s - bound_s)


def _owe(call: Call, meter: Meter) -> None:
    if meter not in call.owing:
        call.owing = (*call.owing, meter)


def _bound_s(call: Call) -> float:
    # None if the caller set no deadline, although the stub's type has no None.
    remaining_s: float | None = call.context.time_remaining()
    return WAIT_S_MAX if remaining_s is None else min(WAIT_S_MAX, max(0.0, remaining_s / 2))
