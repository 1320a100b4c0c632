"""Redrive: dead letters are repaired by a function and sent back once, with a report by reason.

A dead letter is never removed by a redrive, only by retention. The ledger (``redrive_ledger``)
knows which were sent back. So an interrupted redrive can be run again, and dead letters that the
function dropped or failed on are passed to the function of the next run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import arrow_udf

from ariane.broker.v1.topic_service_pb2 import ListTopicsRequest, ListTopicsResponse, Topic
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.common.v1.message_pb2 import MessageType
from ariane_pipelines.letters import (
    ALL_LETTERS,
    LetterFilter,
    check_group,
    dead_letters,
)
from ariane_pipelines.redrive_ledger import RedriveLedger, Run
from ariane_pipelines.redrive_sends import SentMessages, send_planned
from ariane_pipelines.repairs import (
    DECISION_SCHEMA,
    DROPPED,
    FAILED,
    SENT,
    Repairing,
    RepairLetter,
    RepairTable,
    unchanged,
)
from ariane_sdk.translation import error_from_rpc
from ariane_spark.calls.connection import connect_brokers_once, connect_once
from ariane_spark.calls.repetition import Repetition
from ariane_spark.errors import OptionIllegal
from ariane_spark.options.option_table import Use
from ariane_spark.options.options import ReadOptions, read_options
from ariane_wire import CallFailed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

KEPT_SHOWN: Final = 100
REASONS_SHOWN: Final = 1000

PAGE_SIZE: Final = 1000

_PREFIX: Final = "MESSAGE_TYPE_"

_NONE: Final = f"{_PREFIX}UNSPECIFIED"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedrivePlan:
    """The plan of a redrive."""

    endpoints: str
    """Name servers, ``host:port``, separated by commas."""
    group: str
    """The consumer group that gave the messages up."""
    state: str
    """Folder of the ledger, any path or URL that Spark writes to. Keep it as long as the dead
    letters are kept: only the ledger knows which were sent. One redrive at a time."""
    repair: RepairLetter | None = None
    """A function that returns a ``Letter`` as it is to be sent, or ``None`` to drop it."""
    repair_table: RepairTable | None = None
    """The same for many: a function from an Arrow table of dead letters, with the columns of
    ``dead_letters``, to a table with the rows to send."""
    target: str | None = None
    """The topic for all messages; ``None``: the topic each came from."""
    wanted: LetterFilter = ALL_LETTERS
    """The selection of dead letters."""
    exactly_once: bool = True
    """Whether each message is sent exactly once. Without it, finishing an interrupted run may send
    messages twice."""
    dry_run: bool = False
    """Whether only to report what would be done."""
    options: Mapping[str, str] | None = None
    """Further options of the sink."""


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """The outcomes of the dead letters of one topic and one reason."""

    topic: str
    """The topic that they came from."""
    reason: str
    """The reason for which they were given up."""
    last_error: str
    """The error of their last attempt."""
    letter_count: int
    """The number of dead letters."""
    sent_count: int
    """The number sent back."""
    dropped_count: int
    """The number dropped by the function."""
    failed_count: int
    """The number on which the function failed, or that no topic accepts."""


@dataclass(frozen=True, slots=True)
class KeptLetter:
    """A dead letter that was not sent back."""

    place: str
    """Its place: ``broker/queue/offset``."""
    outcome: str
    """``dropped`` or ``failed``."""
    cause: str
    """The error, if it failed."""


@dataclass(frozen=True, slots=True)
class TopicRefusal:
    """A topic that took no messages of an interrupted run; they are decided about anew."""

    topic: str
    """The topic."""
    cause: str
    """The error of the write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveReport:
    """The result of a redrive, or of a dry run."""

    dry_run: bool
    """Whether nothing was sent."""
    finished_count: int = 0
    """Messages of an interrupted run that are now sent."""
    finished_refusals: Sequence[TopicRefusal] = ()
    """Topics that took none of theirs when it was finished."""
    sent_before_count: int = 0
    """Dead letters sent by earlier runs."""
    sent_count: int = 0
    """Dead letters sent back by this run."""
    dropped_count: int = 0
    """Dead letters dropped by the function."""
    failed_count: int = 0
    """Dead letters that could not be repaired or sent."""
    reasons: Sequence[ReasonCount] = ()
    """The same by topic and reason, the most frequent first; at most 1,000."""
    kept: Sequence[KeptLetter] = ()
    """The first 100 dead letters that were not sent."""

    @property
    def letter_count(self) -> int:
        """The number of processed dead letters, without the ones sent before."""
        return self.sent_count + self.dropped_count + self.failed_count


def redrive(spark: SparkSession, plan: RedrivePlan) -> RedriveReport:
    """Repair dead letters and send them back, each once.

    Body, tag, keys, message group and properties are those of the dead letter as the function
    returned it; the property ``redrivenFrom`` names the dead letter.

    Args:
        spark: The session.
        plan: The plan.

    Returns:
        The report.

    Raises:
        OptionError: The plan contradicts itself, or cannot be carried out.
        ArianeError: No name server or broker answers.
    """
    check_plan(plan)
    ledger = RedriveLedger(spark, plan.state)
    finished: list[SentMessages] = []
    ledger.check_group(plan.group)
    if not plan.dry_run:
        ledger.claim(plan.group)
        finished = [send_planned(plan, ledger, run) for run in ledger.runs() if _is_open(run)]
    letters = dead_letters(spark, plan.endpoints, plan.group, plan.wanted)
    sent_before = ledger.sent_letters()
    before = 0
    if sent_before is not None:
        places = ["place", "died"]
        before = letters.select(*places).join(sent_before, places, "left_semi").count()
        letters = letters.join(sent_before, places, "left_anti")
    decisions = _decided(letters, _repairing(plan))
    report = _report_of(decisions) if plan.dry_run else _sent(plan, ledger, decisions)
    return replace(
        report,
        dry_run=plan.dry_run,
        finished_count=sum(each.count for each in finished),
        finished_refusals=[
            TopicRefusal(topic, cause)
            for each in finished
            for topic, cause in each.refusals.items()
        ],
        sent_before_count=before,
    )


def check_plan(plan: RedrivePlan) -> None:
    """Check a plan before Spark is started for it.

    Raises:
        OptionIllegal: The plan contradicts itself.
    """
    check_group(plan.group)
    if plan.repair is not None and plan.repair_table is not None:
        raise OptionIllegal("repair", "one function is enough: for letters or for tables")
    for moment in (plan.wanted.since, plan.wanted.until):
        if moment is not None and moment.tzinfo is None:
            raise OptionIllegal("since", "times need a time zone")


def _repairing(plan: RedrivePlan) -> Repairing:
    options = read_options({"endpoints": plan.endpoints, "topicsPattern": ".*"}, Use.BATCH_READ)
    topics = frozenset(connect_once(options).topics())
    if plan.target is not None and plan.target not in topics:
        raise OptionIllegal("target", f"there is no topic {plan.target!r}")
    on_tables = plan.repair_table is not None
    function = plan.repair_table or plan.repair or unchanged
    return Repairing(function, on_tables, plan.target, topics, topic_types(options))


def _decided(letters: DataFrame, repairing: Repairing) -> DataFrame:
    """The decision over each letter; unlike ``mapInArrow`` this needs no pandas."""
    import pyarrow as pa  # noqa: PLC0415 - help needs no Arrow.

    def decide(rows: pa.StructArray) -> pa.StructArray:
        return repairing(rows)

    # Spark learns from the annotations that it must pass whole arrays; texts do not work.
    decide.__annotations__ = {"rows": pa.Array, "return": pa.Array}
    # Not deterministic: Spark must not call it once for each column of its result.
    # The stubs lack the form that relies on annotations.
    declare: Any = arrow_udf
    decision = declare(decide, DECISION_SCHEMA).asNondeterministic()(f.struct(*letters.columns))
    return letters.select(decision.alias("decision")).select("decision.*")


def _report_of(decisions: DataFrame) -> RedriveReport:
    """The report of a dry run; the function runs once for each letter here, too."""
    kept = decisions.persist()
    try:
        return _counted(kept)
    finally:
        kept.unpersist()


def _sent(plan: RedrivePlan, ledger: RedriveLedger, decisions: DataFrame) -> RedriveReport:
    run = ledger.begin()
    # The function runs once for each letter: its results are stored first, and then sent.
    ledger.decide(run, decisions)
    decided = ledger.decisions(run)
    counts = _counted(decided)
    if not counts.sent_count:
        ledger.forget(run)
        return counts
    planned = ledger.mark_planned(run, exactly_once=plan.exactly_once)
    refusals = send_planned(plan, ledger, planned).refusals
    return _counted(_refused(decided, refusals)) if refusals else counts


def _refused(decided: DataFrame, refusals: Mapping[str, str]) -> DataFrame:
    """The decisions, after topics did not take their messages."""
    refused = (f.col("outcome") == SENT) & f.col("topic").isin(*refusals)
    causes = f.create_map(*map(f.lit, chain.from_iterable(refusals.items())))
    return decided.withColumns(
        {
            "outcome": f.when(refused, FAILED).otherwise(f.col("outcome")),
            "cause": f.when(refused, causes[f.col("topic")]).otherwise(f.col("cause")),
        }
    )


def _is_open(run: Run) -> bool:
    return run.planned and not run.sent


def _counted(decisions: DataFrame) -> RedriveReport:
    """Count the decisions over dead letters, before any of them is sent."""

    def those(outcome: str) -> Column:
        return f.count_if(f.col("outcome") == outcome)

    outcomes = those(SENT), those(DROPPED), those(FAILED)
    sent, dropped, failed = decisions.agg(*outcomes).collect()[0]
    reasons = (
        decisions.groupBy("origin", "reason", "lastError")
        .agg(f.count(f.lit(1)).alias("letters"), *outcomes)
        .orderBy(f.desc("letters"), "origin", "reason", "lastError")
        .limit(REASONS_SHOWN)
    )
    kept = (
        decisions.where(f.col("outcome") != SENT)
        .select("place", "outcome", f.coalesce("cause", f.lit("")))
        .orderBy("place")
        .limit(KEPT_SHOWN)
    )
    return RedriveReport(
        dry_run=True,
        sent_count=sent,
        dropped_count=dropped,
        failed_count=failed,
        reasons=[ReasonCount(*row) for row in reasons.collect()],
        kept=[KeptLetter(*row) for row in kept.collect()],
    )


def topic_types(options: ReadOptions) -> dict[str, str]:
    """The type of each topic that has one: NORMAL, FIFO, DELAY or TRANSACTION.

    Topics that the user may not see are missing, and those about which brokers disagree.

    Args:
        options: The cluster, what proves the user to it, and how it is asked.

    Raises:
        ArianeError: No name server answers, or a broker does not.
    """
    brokers = connect_brokers_once(options)
    repetition, timeout_s = Repetition(options.requests), options.requests.timeout_ms / 1000
    return agreed_types(
        topic
        for name, address in repetition.ask(brokers.routes.brokers).addresses.items()
        for topic in _topics_of(
            TopicServiceStub(brokers.channels.to(address)),
            f"broker {name} at {address}",
            repetition,
            timeout_s,
        )
    )


def agreed_types(topics: Iterable[Topic]) -> dict[str, str]:
    """The types on which all brokers of a topic agree; of others, only a send can tell.

    Args:
        topics: The topics of all brokers.
    """
    types = defaultdict[str, set[str]](set)
    for topic in topics:
        types[topic.topic].add(MessageType.Name(topic.message_type))
    return {
        topic: kind.removeprefix(_PREFIX)
        for topic, (kind, *others) in types.items()
        if kind != _NONE and not others
    }


def _topics_of(
    stub: TopicServiceStub, peer: str, repetition: Repetition, timeout_s: float
) -> Iterator[Topic]:
    request = ListTopicsRequest(page_size=PAGE_SIZE)
    while True:
        answer = repetition.ask(partial(_page, stub, request, peer, timeout_s))
        yield from answer.topics
        if not answer.next_page_token:
            return
        request.page_token = answer.next_page_token


def _page(
    stub: TopicServiceStub, request: ListTopicsRequest, peer: str, timeout_s: float
) -> ListTopicsResponse:
    try:
        return stub.ListTopics(request, timeout=timeout_s)
    except CallFailed as failure:
        raise error_from_rpc(failure, peer=peer) from failure
