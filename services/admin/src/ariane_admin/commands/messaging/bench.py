"""``ariane bench``: how fast a cluster is, from here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ariane_admin.asking.connection import name_servers_option, run_async
from ariane_admin.asking.options import Option, with_options
from ariane_admin.bench.bench_bodies import SIZE_MIN, BenchBodies
from ariane_admin.bench.bench_latency import measure_latency
from ariane_admin.bench.bench_topic import bench_topic
from ariane_admin.bench.bench_works import ConsumingRun, SendingRun, Sent, Show, fill
from ariane_admin.commands.topic.words import QUEUES_MAX
from ariane_admin.counted import counted
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.output import Output, Row, output_option
from ariane_admin.terminal.progress import progress

_BODY_BYTES_MAX = 4 << 20
_COUNT_MAX = 50_000_000
_KEPT_BYTES_MAX = 4 << 30
"""Messages that were consumed are kept until the clock has stopped."""


def _count_option(count: int) -> Option:
    return click.option(
        "--count",
        type=click.IntRange(1, _COUNT_MAX),
        default=count,
        show_default=True,
        help="Number of messages.",
    )


_topic_options = with_options(
    click.option(
        "--size",
        "size_bytes",
        type=click.IntRange(SIZE_MIN, _BODY_BYTES_MAX),
        default=1024,
        show_default=True,
        help="Size of each body, in bytes.",
    ),
    click.option(
        "--queues",
        type=click.IntRange(1, QUEUES_MAX),
        default=4,
        show_default=True,
        help="Queues of the topic on each broker.",
    ),
    name_servers_option,
    output_option,
)


@click.command("produce")
@_count_option(100_000)
@_topic_options
@click.option(
    "--in-flight",
    type=click.IntRange(1, 100_000),
    default=64,
    show_default=True,
    help="Maximum number of sends or batches in flight at the same time.",
)
@click.option(
    "--batch",
    type=click.IntRange(1, 100_000),
    default=1,
    show_default=True,
    help="Messages per batch; 1 sends each message by itself.",
)
def produce(
    *,
    count: int,
    size_bytes: int,
    queues: int,
    in_flight: int,
    batch: int,
    name_servers: str,
    output: Output,
) -> None:
    """Send messages at full speed, and count those stored.

    \b
    Examples:
      ariane bench produce
      ariane bench produce --batch 1000 --in-flight 4
      ariane bench produce --count 10000 --in-flight 1 -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def measured(show: Show) -> Row:
        bodies = BenchBodies(count, size_bytes)
        async with bench_topic(name_servers, queues) as topic:
            sending = SendingRun(topic, bodies, in_flight=in_flight, batch=batch, show=show)
            sent = await sending.run()
            stored = await topic.stored_count()
        lost = max(sent.acknowledged - stored, 0)
        return {
            "messages": sent.acknowledged,
            "seconds": round(sent.seconds, 3),
            **_rates(sent.acknowledged, size_bytes, sent.seconds),
            "failed": sent.failed,
            "stored": stored,
            "lost": lost,
        }

    _show_and_judge(measured, output)


@click.command("consume")
@_count_option(200_000)
@_topic_options
@click.option(
    "--groups",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Number of consumer groups that run at the same time; each consumes all messages.",
)
@click.option(
    "--listener-batch",
    type=click.IntRange(1, 10_000),
    default=32,
    show_default=True,
    help="Maximum number of messages per call of the listener.",
)
def consume(
    *,
    count: int,
    size_bytes: int,
    queues: int,
    groups: int,
    listener_batch: int,
    name_servers: str,
    output: Output,
) -> None:
    """Store messages, then consume them at full speed and compare each one.

    Time is measured from the first delivery to the last. All messages consumed are held in memory
    until then.

    \b
    Examples:
      ariane bench consume
      ariane bench consume --groups 4 -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if count * size_bytes * groups > _KEPT_BYTES_MAX:
        kept = f"{count * size_bytes * groups / 2**30:,.1f} GiB would be held in memory"
        raise click.UsageError(
            f"{kept}, and at most {_KEPT_BYTES_MAX >> 30} GiB are allowed: lower --count"
        )

    async def measured(show: Show) -> Row:
        bodies = BenchBodies(count, size_bytes, copies=groups)
        async with bench_topic(name_servers, queues) as topic:
            _check_filled(await fill(topic, bodies, show))
            consuming = ConsumingRun(
                topic, bodies, group_count=groups, listener_batch=listener_batch, show=show
            )
            consumed = await consuming.run()
        return {
            "messages": consumed.deliveries,
            "seconds": round(consumed.seconds, 3),
            **_rates(consumed.deliveries, size_bytes, consumed.seconds),
            **_checked(bodies),
        }

    _show_and_judge(measured, output)


@click.command("latency")
@click.option(
    "--rate",
    type=click.IntRange(1, 1_000_000),
    default=1000,
    show_default=True,
    help="Messages per second, sent whether or not earlier ones were acknowledged.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 86_400),
    default=10.0,
    show_default=True,
    help="Duration in seconds, after one second of warm-up that is not counted.",
)
@click.option(
    "--warm-up", type=click.FloatRange(0, 3600), default=1.0, show_default=True, hidden=True
)
@_topic_options
def latency(
    *,
    rate: int,
    seconds: float,
    warm_up: float,
    size_bytes: int,
    queues: int,
    name_servers: str,
    output: Output,
) -> None:
    """Send on a fixed schedule, and measure how long messages take to reach a listener.

    The latency of a message counts from the time it was due, not from when it was sent, so a pause
    shows in every message that it delays (an open loop). The time from due to acknowledged is shown
    for the same messages. Sender and listener run in this process.

    \b
    Examples:
      ariane bench latency
      ariane bench latency --rate 5000 --seconds 30 -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if rate * (seconds + warm_up) > _COUNT_MAX:
        raise click.UsageError(
            f"{rate * (seconds + warm_up):,.0f} messages, at most {_COUNT_MAX:,}: fewer --seconds"
        )

    async def measured(show: Show) -> Row:
        warm_up_count = round(rate * warm_up)
        bodies = BenchBodies(warm_up_count + max(round(rate * seconds), 1), size_bytes)
        async with bench_topic(name_servers, queues) as topic:
            heard = await measure_latency(
                topic, bodies, rate=rate, warm_up_count=warm_up_count, show=show
            )
        checked = _checked(bodies)
        # What was refused could not come.
        checked["lost"] = max(bodies.missing_count - heard.failed, 0)
        return {
            "messages": bodies.count,
            "rate": rate,
            **heard.percentiles_ms,
            **{f"acknowledged_{name}": ms for name, ms in heard.acknowledged_ms.items()},
            "sender_late_ms": round(heard.late_ms, 3),
            "failed": heard.failed,
            **checked,
        }

    _show_and_judge(measured, output)


def _rates(count: int, size_bytes: int, seconds: float) -> dict[str, object]:
    return {
        "messages_per_second": round(count / seconds),
        "megabytes_per_second": round(count * size_bytes / seconds / 1e6, 1),
    }


def _checked(bodies: BenchBodies) -> dict[str, object]:
    """What came and what did not, as every consuming measurement tells it."""
    return {
        "lost": bodies.missing_count,
        "altered": bodies.altered_count,
        "repeated": bodies.repeated_count,
    }


def _check_filled(sent: Sent) -> None:
    if sent.failed:
        failed = counted(sent.failed, "message")
        raise CommandFailed(f"{failed} could not be stored; nothing was measured")


def _show_and_judge(measured: Callable[[Show], Any], output: Output) -> None:
    """Run a measurement and write it.

    Raises:
        CommandFailed: Messages failed, were lost or altered; the figures are written before.
    """
    with progress() as show:
        row: Row = run_async(measured(show))
    output.record(row)
    wrong = {name: row[name] for name in ("failed", "lost", "altered") if row.get(name)}
    if wrong:
        words = ", ".join(f"{count:,} {name}" for name, count in wrong.items())
        raise CommandFailed(f"some messages did not arrive as they were sent: {words}")
