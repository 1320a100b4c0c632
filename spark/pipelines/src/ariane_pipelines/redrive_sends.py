"""Sends what a run of a redrive has decided, topic by topic.

A topic may refuse its messages for good: it was made read-only, or lacks a right. Its run must not
wait for it for ever, and no letter may be sent twice. So after a failure the name of the write is
used up by an empty one: then nothing can become visible under it any more, whatever is still on its
way, and the letters may be decided about anew. If the name was used up before, they are sent.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from ariane_pipelines.error_texts import message_of
from ariane_pipelines.repairs import SENT
from ariane_sdk.errors import ArianeError, BatchDiffers
from ariane_spark.calls.connection import connect_transactions_once
from ariane_spark.calls.sink_batches import batch_of_options
from ariane_spark.options.write_options import SINK_ID_LENGTH_MAX, write_options
from ariane_spark.records.contents import Contents

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ariane_pipelines.redrive_ledger import RedriveLedger, Run
    from ariane_pipelines.redriving import RedrivePlan

REDRIVEN_PROPERTY: Final = "redrivenFrom"
"""The property with the dead letter of a message: group/broker/queue/offset."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SentMessages:
    """What became of the messages of a run."""

    count: int
    """How many were sent."""
    refusals: Mapping[str, str]
    """Why topics took none, by topic."""


def send_planned(plan: RedrivePlan, ledger: RedriveLedger, run: Run) -> SentMessages:
    """Send the decided messages of a run; what a topic does not take is left.

    Raises:
        PySparkException: It is not known whether a topic has its messages; the next run finishes
            this one.
        Py4JError: The same.
    """
    messages = ledger.decisions(run).where(f.col("outcome") == SENT)
    counts = messages.groupBy("topic").count().orderBy("topic").collect()
    sent_count, refusals = 0, dict[str, str]()
    unknown: Exception | None = None
    for topic, count in counts:
        if topic in run.unsent_topics:
            continue
        given = _options_of_write(plan, ledger, run, topic)
        try:
            _write(messages.where(f.col("topic") == topic), plan.group, given)
        except (PySparkException, Py4JError) as error:
            is_sent = _is_sent(given)
            if is_sent is None:
                _log.warning("topic %s: %s", topic, message_of(error))
                unknown = error
                continue
            if not is_sent:
                cause = message_of(error)
                _log.warning("topic %s took no messages of run %d: %s", topic, run.number, cause)
                ledger.mark_unsent(run, topic)
                refusals[topic] = cause
                continue
        sent_count += count
    if unknown is not None:
        raise unknown
    ledger.mark_sent(run)
    return SentMessages(sent_count, refusals)


def _options_of_write(
    plan: RedrivePlan, ledger: RedriveLedger, run: Run, topic: str
) -> dict[str, str]:
    given = {"endpoints": plan.endpoints, "topic": topic, **(plan.options or {})}
    if run.exactly_once:
        # Brokers tell writes of one name to several topics apart.
        name = f"redrive/{ledger.identity()}/{run.number}/{topic}"[:SINK_ID_LENGTH_MAX]
        # A name that is used up must fail.
        exact = {"deliveryGuarantee": "exactly-once", "onChangedBatch": "fail", "writeId": name}
        given |= exact
    return given


def _write(messages: DataFrame, group: str, given: Mapping[str, str]) -> None:
    origin = f.concat(f.lit(f"{group}/"), "place")
    (
        # The letters of one message group are sent in the order in which they died.
        messages.repartition(f.coalesce("messageGroup", "place"))
        .sortWithinPartitions("died", "place")
        .select(
            "body",
            "tag",
            "keys",
            "messageGroup",
            f.map_concat(
                f.map_filter("properties", lambda name, _: name != REDRIVEN_PROPERTY),
                f.create_map(f.lit(REDRIVEN_PROPERTY), origin),
            ).alias("properties"),
        )
        .write.format("ariane")
        .mode("append")
        .options(**given)
        .save()
    )


def _is_sent(given: Mapping[str, str]) -> bool | None:
    """Whether the messages of a write that failed are visible; if not, they never will be.

    At least once, some may be; sending all of them again is what this guarantee allows.

    Returns:
        ``None`` if nobody can tell now.
    """
    options = write_options(given)
    if not options.exactly_once:
        return False
    try:
        connect_transactions_once(options).commit(batch_of_options(options), (), Contents())
    except BatchDiffers:
        return True
    except ArianeError as error:
        _log.warning("what became of a write to %s is not known: %s", options.topic, error)
        return None
    return False
