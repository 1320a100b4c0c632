"""``ariane group retry``: how often, and after which waits, a group tries again what failed."""

from __future__ import annotations

import re
from typing import Final

import click
from google.protobuf.duration_pb2 import Duration

from ariane.admin.v1.group_service_pb2 import UpdateGroupRequest
from ariane.broker.v1.group_service_pb2 import (
    ConsumerGroup,
    ConsumerGroupChange,
    DelayTable,
    ExponentialDelay,
    RetryPolicy,
)
from ariane_admin.asking.changing.changes import (
    AdminChoice,
    change_options,
    changed_everywhere,
)
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.questions import questions
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row

_COLUMNS: Final = ("broker", "attempts_max", "ordered_attempts_max", "policy", "waits")
UNLIMITED_ATTEMPTS: Final = (1 << 31) - 1
_UNLIMITED: Final = "unlimited"
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_SPAN: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h)")
_FACTOR: Final = 2.0


class _Attempts(click.ParamType[int]):
    """A number of repetitions, or none as their limit."""

    name = "NUMBER|unlimited"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Read the option."""
        text = str(value)
        if text == _UNLIMITED:
            return UNLIMITED_ATTEMPTS
        if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > UNLIMITED_ATTEMPTS:
            self.fail(f"{value!r}: give a number or {_UNLIMITED}", param, ctx)
        return int(text)


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
            self.fail(f"{value!r}: give times like 500ms, 10s, 5m or 2h", param, ctx)
        spans = []
        for match in filter(None, found):
            span = Duration()
            span.FromMilliseconds(round(float(match[1]) * _UNIT_MS[match[2]]))
            spans.append(span)
        return tuple(spans)


@click.command("retry")
@click.argument("name")
@click.option(
    "--attempts",
    type=_Attempts(),
    help="Number of retries before a message becomes a dead letter, or 'unlimited'.",
)
@click.option(
    "--ordered-attempts",
    type=_Attempts(),
    help="The same for messages that are consumed or received in order; unlimited by default, so"
    " that none is passed over.",
)
@click.option(
    "--waits",
    type=_Spans(),
    help="Waits before the first, second, ... retry, as in '1s 10s 1m'; the last one repeats.",
)
@click.option(
    "--growth",
    type=_Spans(),
    help="Growing waits: the first and the longest, as in '5s 2h'; see --factor.",
)
@click.option(
    "--factor",
    type=click.FloatRange(1, 1000),
    help=f"By which waits grow; {_FACTOR:g} if not given. With --growth.",
)
@click.option("--levels", is_flag=True, help="Go back to the waits of the brokers' delay levels.")
@change_options
def retry(
    *,
    name: str,
    attempts: int | None,
    ordered_attempts: int | None,
    waits: tuple[Duration, ...] | None,
    growth: tuple[Duration, ...] | None,
    factor: float | None,
    levels: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> int:
    """Show or change how group NAME retries failed messages, on all brokers.

    A change creates the group on brokers that do not know it yet, and fails if a broker does not
    answer. Without a change, a warning names each broker that does not answer, the others are
    shown, and the exit status is 3.

    \b
    Examples:
      ariane group retry billing
      ariane group retry billing --attempts 5 --waits "1s 10s 1m"
      ariane group retry ledger --ordered-attempts 5
      ariane group retry billing --growth "5s 2h" --factor 3
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if sum((waits is not None, growth is not None, levels)) > 1:
        raise click.UsageError("give only one of --waits, --growth and --levels")
    if factor is not None and growth is None:
        raise click.UsageError("--factor requires --growth")
    policy = RetryPolicy(table=DelayTable()) if levels else None
    if waits is not None:
        policy = RetryPolicy(table=DelayTable(delays=waits))
    if growth is not None:
        if len(growth) != 2:
            raise click.UsageError("--growth takes two times: the first wait and the longest")
        exponential = ExponentialDelay(
            initial=growth[0], max=growth[1], multiplier=factor or _FACTOR
        )
        policy = RetryPolicy(exponential=exponential)

    if (attempts, ordered_attempts, policy) != (None, None, None):
        change = ConsumerGroupChange(
            consumer_group=name,
            attempts_max=attempts,
            ordered_attempts_max=ordered_attempts,
            retry_policy=policy,
        )
        request = UpdateGroupRequest(group=change, allow_missing=True)
        answer = changed_everywhere(
            name_servers, admin, lambda one: one.groups.UpdateGroup, request
        )
        parts = answer.group.placements
        output.rows(_COLUMNS, [_row(each.broker_name, each.group) for each in parts])
        return ExitStatus.DONE
    return run_async(_show(name_servers, name, output))


async def _show(name_servers: str, name: str, output: Output) -> ExitStatus:
    """How the group tries again, at each broker that knows it."""
    async with questions(name_servers) as asked:
        group = await asked.group(name)
    output.rows(_COLUMNS, [_row(part.broker_name, part.group) for part in group.placements])
    return asked.status


def _row(broker_name: str, group: ConsumerGroup) -> Row:
    policy = group.retry_policy
    if policy.HasField("exponential"):
        growth = policy.exponential
        word = "growth"
        waits = f"{_text(growth.initial)} to {_text(growth.max)}, times {growth.multiplier:g}"
    elif policy.table.delays:
        word, waits = "table", " ".join(map(_text, policy.table.delays))
    else:
        word, waits = "levels", "the broker's delay levels from the third on"
    return {
        "broker": broker_name,
        "attempts_max": _limit(group.attempts_max),
        "ordered_attempts_max": _limit(group.ordered_attempts_max),
        "policy": word,
        "waits": waits,
    }


def _limit(attempts: int) -> int | str:
    return _UNLIMITED if attempts == UNLIMITED_ATTEMPTS else attempts


def _text(span: Duration) -> str:
    """A span in the largest unit in which it is whole."""
    milliseconds = span.ToMilliseconds()
    for unit, size_ms in reversed(_UNIT_MS.items()):
        if milliseconds and milliseconds % size_ms == 0:
            return f"{milliseconds // size_ms}{unit}"
    return "0s"
