"""Runs the user's function on dead letters: each is repaired, dropped, or failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

SENT: Final = "sent"
DROPPED: Final = "dropped"
FAILED: Final = "failed"

DECISION_SCHEMA: Final = (
    "place string, died timestamp, origin string, reason string, lastError string, outcome string,"
    " cause string, topic string, body binary, tag string, keys array<string>, messageGroup string,"
    " properties map<string,string>"
)
"""A dead letter and its decision; the fields after ``cause`` are the message to send."""

ERROR_CHARACTERS_MAX: Final = 500

_MESSAGE_COLUMNS: Final = ("topic", "body", "tag", "keys", "messageGroup", "properties")


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter, as the argument and result of a repair function.

    The fields from ``topic`` on become the message; change them by ``dataclasses.replace``.
    """

    place: str
    """Its place: ``broker/queue/offset``."""
    died: datetime
    """When it was given up, in UTC."""
    reason: str
    """``ATTEMPTS_EXHAUSTED``, ``REJECTED``, ``CONSUMER_DIED`` or ``UNKNOWN``."""
    last_error: str
    """The error of the last attempt; may be empty."""
    attempts: int
    """The number of attempts."""
    topic: str
    """The topic to send to; at first the topic it came from, or the target of all."""
    body: bytes | str
    """The payload; text is encoded as UTF-8."""
    tag: str = ""
    """The tag; empty without one."""
    keys: Sequence[str] = ()
    """The keys."""
    message_group: str = ""
    """The message group; empty without one."""
    properties: Mapping[str, str]
    """The application's own properties."""


RepairLetter = Callable[[Letter], Letter | None]
RepairTable = Callable[["pa.Table"], "pa.Table"]


def unchanged(letter: Letter) -> Letter:
    """Repair nothing: the message may succeed now."""
    return letter


@dataclass(frozen=True)
class Repairing:
    """Decides over dead letters, batch by batch; called in Spark's tasks."""

    function: RepairLetter | RepairTable
    """The user's function."""
    on_tables: bool
    """Whether it takes tables instead of letters."""
    target: str | None
    """The topic for all messages; ``None``: the topic each came from."""
    topics: frozenset[str]
    """The existing topics."""
    types: Mapping[str, str] = field(default_factory=dict)
    """The types of the topics that have one."""

    def __call__(self, rows: pa.StructArray) -> pa.StructArray:
        """Return a row of ``DECISION_SCHEMA`` for each dead letter.

        Args:
            rows: Dead letters with the columns of ``dead_letters``.
        """
        import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.

        batch = pa.RecordBatch.from_struct_array(rows)
        letters = batch.to_pylist()
        for letter in letters:
            letter["origin"] = letter["topic"]
            letter["topic"] = self.target or letter["topic"]
        decide = self._repaired_table if self.on_tables else self._repaired_letters
        decisions = [
            self._decision(letter, repaired)
            for letter, repaired in zip(letters, decide(letters, batch), strict=True)
        ]
        _refuse_illegal(decisions)
        return pa.array(decisions, pa.struct(list(_decision_schema())))

    def _repaired_letters(
        self, letters: Sequence[dict[str, Any]], _batch: pa.RecordBatch
    ) -> list[Letter | Exception | None]:
        function: Any = self.function
        found: list[Letter | Exception | None] = []
        for row in letters:
            try:
                repaired = function(_letter_of(row))
                if not isinstance(repaired, Letter | None):
                    found.append(TypeError(f"it gave {type(repaired).__name__}, not a Letter"))
                else:
                    found.append(repaired)
            except Exception as error:  # noqa: BLE001 - any error of the user's code.
                found.append(error)
        return found

    def _repaired_table(
        self, letters: Sequence[dict[str, Any]], batch: pa.RecordBatch
    ) -> list[Letter | Exception | None]:
        import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.

        function: Any = self.function
        given = pa.Table.from_batches([batch])
        if self.target is not None:
            at = given.schema.get_field_index("topic")
            given = given.set_column(at, "topic", pa.repeat(self.target, len(given)))
        rows_of: dict[str, list[dict[str, Any]]] = {row["place"]: [] for row in letters}
        try:
            for row in function(given).to_pylist():
                rows_of[row["place"]].append(row)
        except KeyError as error:
            stray = ValueError(f"it gave rows without a place of a letter that it got: {error}")
            return [stray] * len(letters)
        except Exception as error:  # noqa: BLE001 - any error of the user's code.
            return [error] * len(letters)
        return [_one_of(row, rows_of[row["place"]]) for row in letters]

    def _decision(
        self, letter: Mapping[str, Any], repaired: Letter | Exception | None
    ) -> dict[str, Any]:
        decision: dict[str, Any] = {
            name: letter[name] for name in ("place", "died", "origin", "reason", "lastError")
        }
        if repaired is None:
            return {**decision, "outcome": DROPPED}
        try:
            if isinstance(repaired, Exception):
                raise repaired  # noqa: TRY301 - reported like errors found here.
            return {**decision, "outcome": SENT, **self._message_of(repaired)}
        except Exception as error:  # noqa: BLE001 - any result of the user's code.
            text = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]
            return {**decision, "outcome": FAILED, "cause": text}

    def _message_of(self, letter: Letter) -> dict[str, Any]:
        if letter.topic not in self.topics:
            raise LookupError(f"there is no topic {letter.topic!r}")
        body = letter.body.encode() if isinstance(letter.body, str) else letter.body
        if not isinstance(body, bytes | bytearray | memoryview):
            raise TypeError(f"its body is {type(body).__name__}, neither bytes nor text")
        if isinstance(letter.keys, str):
            raise TypeError("its keys are one text, not several")
        refusal = misfit(letter, self.types)
        if refusal is not None:
            raise ValueError(refusal)
        return {
            "topic": letter.topic,
            "body": bytes(body),
            "tag": letter.tag or "",
            "keys": list(letter.keys or ()),
            "messageGroup": letter.message_group or None,
            "properties": list(dict(letter.properties or {}).items()),
        }


def misfit(letter: Letter, types: Mapping[str, str]) -> str | None:
    """Why the topic of a letter would not take it, in words for the user; ``None``: it does.

    Args:
        letter: The letter as it is to be sent.
        types: The types of topics, by name.
    """
    match types.get(letter.topic):
        case "FIFO" if not letter.message_group:
            return (
                f"topic {letter.topic!r} is of type FIFO and takes only messages with a message"
                " group; set 'message_group'"
            )
        case "NORMAL" if letter.message_group:
            return (
                f"topic {letter.topic!r} is of type NORMAL and takes no messages with a message"
                " group; make 'message_group' empty"
            )
        case "DELAY" | "TRANSACTION" as kind:
            return f"topic {letter.topic!r} takes only messages of type {kind}"
    return None


def _letter_of(row: Mapping[str, Any]) -> Letter:
    return Letter(
        place=row["place"],
        died=row["died"].astimezone(UTC),
        reason=row["reason"],
        last_error=row["lastError"],
        attempts=row["attempts"],
        topic=row["topic"],
        body=row["body"],
        tag=row["tag"] or "",
        keys=tuple(row["keys"] or ()),
        message_group=row["messageGroup"] or "",
        properties=dict(row["properties"] or ()),
    )


def _one_of(letter: Mapping[str, Any], rows: Sequence[dict[str, Any]]) -> Letter | Exception | None:
    """The result for one letter in a table; columns that are left out stay unchanged."""
    if len(rows) > 1:
        return ValueError(f"it gave {len(rows)} rows for one letter")
    if not rows:
        return None
    try:
        changed = {name: value for name, value in rows[0].items() if name in _MESSAGE_COLUMNS}
        return _letter_of({**letter, **changed})
    except Exception as error:  # noqa: BLE001 - its values may have any types.
        return error


def _refuse_illegal(decisions: Sequence[dict[str, Any]]) -> None:
    """Mark letters that no sink would accept as failed, so that they do not stop the others."""
    sent = [decision for decision in decisions if decision["outcome"] == SENT]
    if _illegality(sent) is None:
        return
    for decision in sent:
        cause = _illegality([decision])
        if cause is not None:
            decision.update({"outcome": FAILED, "cause": cause[:ERROR_CHARACTERS_MAX]})
            for name in _MESSAGE_COLUMNS:
                decision.pop(name)


def _illegality(decisions: Sequence[Mapping[str, Any]]) -> str | None:
    import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.

    from ariane_sdk.errors import ArianeError  # noqa: PLC0415 - tasks only.
    from ariane_sdk.message_tables import table_parts  # noqa: PLC0415 - it needs Arrow.
    from ariane_spark.records.bad_rows import BODY_BYTES_MAX  # noqa: PLC0415 - the same.

    names = [name for name in _MESSAGE_COLUMNS if name != "topic"]
    schema = pa.schema([_decision_schema().field(name) for name in names])
    try:
        rows = [{name: decision[name] for name in names} for decision in decisions]
        table_parts(pa.Table.from_pylist(rows, schema), None, body_bytes_max=BODY_BYTES_MAX)
    except (ArianeError, pa.ArrowException, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _decision_schema() -> pa.Schema:
    """The schema that Spark expects of each batch: the Arrow form of ``DECISION_SCHEMA``."""
    import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.

    types = {
        "string": pa.string(),
        "timestamp": pa.timestamp("us", "UTC"),
        "binary": pa.binary(),
        "array<string>": pa.list_(pa.string()),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }
    columns = (column.split(" ") for column in DECISION_SCHEMA.split(", "))
    return pa.schema([(name, types[kind]) for name, kind in columns])
