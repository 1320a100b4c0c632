"""``ariane group retry``: how often, and after which waits, a group tries again what failed."""

from __future__ import annotations

import re
from typing import Final

import click
from google.protobuf.duration_pb2 import Duration

from ariane.broker.v1.group_service_pb2 import (
    ConsumerGroup,
    CreateConsumerGroupRequest,
    DelayTable,
    ExponentialDelay,
    GetConsumerGroupRequest,
    RetryPolicy,
    UpdateConsumerGroupRequest,
)
from ariane_admin.asking.cluster_doors import (
    CALL_SECONDS_MAX,
    ClusterDoors,
    answer_of,
    answer_to_question,
    ask_each,
    broker_peer,
)
from ariane_admin.asking.connection import name_servers_option, run_async
from ariane_admin.asking.roll_call import RollCall, unknown_among_answers
from ariane_admin.terminal.output import Output, Row, output_option
from ariane_sdk import LiveBroker
from ariane_sdk.errors import GroupNotFound

_COLUMNS: Final = ("broker", "attempts_max", "policy", "waits")
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_SPAN: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h)")
_FACTOR: Final = 2.0


class _Spans(click.ParamType[tuple[Duration, ...]]):
    """Times such as ``1s 30s 5m``."""

    name = "TIME ..."

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Duration, ...]:
        """Read the option."""
        words = str(value).replace(",", " ").split()
        found = [_SPAN.fullmatch(word) for word in words]
        if not words or None in found:
            self.fail(f"{value!r}: say times like 500ms, 10s, 5m or 2h", param, ctx)
        spans = []
        for match in filter(None, found):
            span = Duration()
            span.FromMilliseconds(round(float(match[1]) * _UNIT_MS[match[2]]))
            spans.append(span)
        return tuple(spans)


@click.command("retry")
@click.argument("name")
@click.option(
    "--attempts", type=click.IntRange(0, 1000), help="So many tries again, then a dead letter."
)
@click.option("--waits", type=_Spans(), help="The wait before each; the last one repeats.")
@click.option(
    "--growth", type=_Spans(), help="The first wait and the longest, as in '5s 2h'; see --factor."
)
@click.option(
    "--factor",
    type=click.FloatRange(1, 1000),
    help=f"By which waits grow; {_FACTOR:g} if not given. With --growth.",
)
@click.option("--levels", is_flag=True, help="The waits of the brokers' delay levels again.")
@name_servers_option
@output_option
def retry(
    *,
    name: str,
    attempts: int | None,
    waits: tuple[Duration, ...] | None,
    growth: tuple[Duration, ...] | None,
    factor: float | None,
    levels: bool,
    name_servers: str,
    output: Output,
) -> int:
    """Show how group NAME tries again what failed, or change it on all brokers.

    A group that a broker does not know yet is made there by a change. Brokers that do not answer
    fail a change; otherwise they are named, and the others shown; exit status 3.

    \b
    Examples:
      ariane group retry billing
      ariane group retry billing --attempts 5 --waits "1s 10s 1m"
      ariane group retry billing --growth "5s 2h" --factor 3
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if sum((waits is not None, growth is not None, levels)) > 1:
        raise click.UsageError("say one of --waits, --growth and --levels")
    if factor is not None and growth is None:
        raise click.UsageError("--factor goes with --growth")
    policy = RetryPolicy(table=DelayTable()) if levels else None
    if waits is not None:
        policy = RetryPolicy(table=DelayTable(delays=waits))
    if growth is not None:
        if len(growth) != 2:
            raise click.UsageError("--growth is two times: the first wait and the longest")
        exponential = ExponentialDelay(
            initial=growth[0], max=growth[1], multiplier=factor or _FACTOR
        )
        policy = RetryPolicy(exponential=exponential)

    changes = attempts is not None or policy is not None

    async def ask() -> tuple[RollCall, list[Row]]:
        async with ClusterDoors(name_servers) as doors:
            roll = RollCall(await doors.primaries())

            async def at(broker: LiveBroker) -> Row | None:
                group = await _changed(doors, broker, name, attempts, policy)
                return None if group is None else _row(broker, group)

            answers = await (ask_each(roll.brokers, at) if changes else roll.ask(at))
            return roll, [row for row in answers if row is not None]

    roll, rows = run_async(ask())
    if not rows and roll.unanswered:
        raise unknown_among_answers(name)
    if not rows:
        raise GroupNotFound(f"no broker knows group {name!r}; ariane group list shows all")
    output.rows(_COLUMNS, rows)
    return roll.status


async def _changed(
    doors: ClusterDoors,
    broker: LiveBroker,
    name: str,
    attempts: int | None,
    policy: RetryPolicy | None,
) -> ConsumerGroup | None:
    """The group as it is on a broker after the change; nothing where it is not known."""
    stub, peer = doors.groups(broker.address), broker_peer(broker)
    changes = attempts is not None or policy is not None
    try:
        known = GetConsumerGroupRequest(consumer_group=name)
        call = stub.GetConsumerGroup(known, timeout=CALL_SECONDS_MAX)
        group = (await answer_to_question(call, peer)).group
    except GroupNotFound:
        if not changes:
            return None
        fresh = ConsumerGroup(
            consumer_group=name, consume_enabled=True, broadcast_enabled=True, attempts_max=16
        )
        create = CreateConsumerGroupRequest(group=_with(fresh, attempts, policy))
        made = stub.CreateConsumerGroup(create, timeout=CALL_SECONDS_MAX)
        return (await answer_of(made, peer)).group
    if not changes:
        return group
    update = UpdateConsumerGroupRequest(group=_with(group, attempts, policy))
    changed = stub.UpdateConsumerGroup(update, timeout=CALL_SECONDS_MAX)
    return (await answer_of(changed, peer)).group


def _with(group: ConsumerGroup, attempts: int | None, policy: RetryPolicy | None) -> ConsumerGroup:
    if attempts is not None:
        group.attempts_max = attempts
    if policy is not None:
        group.retry_policy.CopyFrom(policy)
    return group


def _row(broker: LiveBroker, group: ConsumerGroup) -> Row:
    policy = group.retry_policy
    if policy.HasField("exponential"):
        growth = policy.exponential
        word = "growth"
        waits = f"{_text(growth.initial)} to {_text(growth.max)}, times {growth.multiplier:g}"
    elif policy.table.delays:
        word, waits = "table", " ".join(map(_text, policy.table.delays))
    else:
        word, waits = "levels", "those of the broker's delay levels from the third on"
    return {
        "broker": broker.broker_name,
        "attempts_max": group.attempts_max,
        "policy": word,
        "waits": waits,
    }


def _text(span: Duration) -> str:
    """A span in the largest unit in which it is whole."""
    milliseconds = span.ToMilliseconds()
    for unit, size_ms in reversed(_UNIT_MS.items()):
        if milliseconds and milliseconds % size_ms == 0:
            return f"{milliseconds // size_ms}{unit}"
    return "0s"
