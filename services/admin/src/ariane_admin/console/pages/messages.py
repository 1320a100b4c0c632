"""The pages of messages: search, decoding, consumption, resending; dead and delayed messages."""

from __future__ import annotations

import codecs
import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Final

from google.protobuf.json_format import MessageToDict
from google.protobuf.timestamp_pb2 import Timestamp
from starlette.requests import Request

from ariane.admin.v1 import dead_letter_service_pb2 as letter_pb
from ariane.admin.v1 import delayed_message_service_pb2 as delayed_pb
from ariane.admin.v1 import message_service_pb2 as message_pb
from ariane.common.v1.message_pb2 import Message
from ariane_admin.console.api import Asker, silence
from ariane_admin.console.blocks import (
    Block,
    Cell,
    Fields,
    Form,
    Input,
    Listing,
    Notice,
    Page,
    Table,
    moment,
    next_page,
    number,
    size,
    span,
    to,
)
from ariane_admin.console.changing.change import NotDone

SECTION: Final = "Messages"
SHOWN_BYTES: Final = 120
BODY_FORMS: Final = ("text", "json", "hex")
HEX_BYTES_MAX: Final = 64 << 10

_STANDINGS: Final[dict[int, Cell]] = {
    message_pb.MESSAGE_STANDING_PASSED: Cell("passed", kind="good"),
    message_pb.MESSAGE_STANDING_AHEAD: Cell("not yet", kind="warn"),
    message_pb.MESSAGE_STANDING_OFFLINE: Cell("not yet, and nobody is there", kind="bad"),
}


async def messages(ask: Asker, request: Request) -> Page:
    """Messages of a topic, by key, by unique id, by time, or the newest."""
    query = request.query_params
    topic, key, unique_id = (query.get(name, "") for name in ("topic", "key", "unique_id"))
    begin, end = query.get("begin", ""), query.get("end", "")
    search = Form(
        "",
        "/messages",
        (
            Input("topic", "Topic", topic, "search", required=True),
            Input("key", "Key", key, "search"),
            Input("unique_id", "Id", unique_id, "search"),
            Input("begin", "Stored from, UTC", begin, "datetime-local"),
            Input("end", "Stored until, UTC", end, "datetime-local"),
        ),
        "Search",
        "get",
    )
    if not topic:
        return Page("Messages", [search, Notice("Say of which topic.")], SECTION)
    if unique_id:
        found = await ask(
            ask.api.messages.GetMessage,
            message_pb.GetMessageRequest(topic=topic, message_id=unique_id),
        )
        return Page("Messages", [search, *silence(found), _table([found.message], "")], SECTION)
    asked = message_pb.QueryMessagesRequest(
        topic=topic,
        begin_time=time_in(begin),
        end_time=time_in(end),
        page_size=50,
        page_token=query.get("token", ""),
        body_bytes_max=SHOWN_BYTES,
    )
    if key:
        asked.key = key
    answer = await ask(ask.api.messages.QueryMessages, asked)
    more = next_page(answer, "messages", topic=topic, key=key, begin=begin, end=end)
    return Page("Messages", [search, *silence(answer), _table(answer.messages, more)], SECTION)


async def message(ask: Asker, request: Request) -> Page:
    """One message with its body, and the groups that have consumed it."""
    topic, message_id = request.path_params["topic"], request.path_params["message_id"]
    answer = await ask(
        ask.api.messages.GetMessage,
        message_pb.GetMessageRequest(topic=topic, message_id=message_id),
    )
    found = answer.message
    form = request.query_params.get("body", "")
    progress = [
        (
            Cell(each.consumer_group, to("groups", each.consumer_group)),
            _STANDINGS.get(each.standing, Cell("not known")),
        )
        for each in answer.progresses
    ]
    blocks: list[Block] = [
        *silence(answer),
        Fields("", _facts(found)),
        _body(found.body, form, to("messages", topic, message_id)),
        Table("Who consumed it", ("Group", "Has it"), progress, "No group has offsets there."),
        Form(
            "Send it once more",
            "/messages/send",
            (
                Input("topic", value=found.topic, kind="hidden"),
                Input("again", value=message_id, kind="hidden"),
            ),
            "Send a copy",
        ),
        Form(
            "Have one consumer consume it once more",
            "/messages/consume",
            (
                Input("topic", value=found.topic, kind="hidden"),
                Input("message_id", value=message_id, kind="hidden"),
                Input("group", "Group", required=True),
                Input("client_id", "Member; empty for any"),
            ),
            "Consume again",
        ),
    ]
    trail = [Cell("Messages", to("messages", topic=topic)), Cell(topic, to("topics", topic))]
    return Page(message_id, blocks, SECTION, trail=trail)


async def dead_letters(ask: Asker, request: Request) -> Page:
    """The dead letters of a group."""
    query = request.query_params
    group = query.get("group", "")
    redriven = query.get("redriven", "")
    search = Form(
        "",
        "/dead-letters",
        (
            Input("group", "Group", group, "search", required=True),
            Input("topic", "From topic", query.get("topic", ""), "search"),
            Input("key", "Key or unique id", query.get("key", ""), "search"),
            Input("redriven", "Those sent back too", redriven, "checkbox"),
        ),
        "Search",
        "get",
    )
    if not group:
        return Page("Dead letters", [search, Notice("Say of which group.")], "Dead letters")
    wanted = letter_query(query)
    asked = letter_pb.ListDeadLettersRequest(
        consumer_group=group,
        query=wanted,
        page_size=50,
        page_token=query.get("token", ""),
        body_bytes_max=SHOWN_BYTES,
    )
    answer = await ask(ask.api.dead_letters.ListDeadLetters, asked)
    given = {name: query.get(name, "") for name in ("group", "topic", "key", "redriven")}
    more = next_page(answer, "dead-letters", **given)
    named = [Input(name, value=value, kind="hidden") for name, value in given.items() if value]
    blocks: list[Block] = [
        search,
        *silence(answer),
        *_unfinished(answer),
        _letters(answer, more),
        Form(
            "Send these back",
            "/dead-letters/redrive",
            (
                *named,
                Input("place", "Only the one at place (broker/queue/offset)"),
                Input(
                    "to_topic", "To all groups of the topic, not only to this one", kind="checkbox"
                ),
            ),
            "Send back",
            danger=True,
        ),
        Fields("", [("Export", Cell("as lines of JSON", to("dead-letters", "export", **given)))]),
    ]
    return Page(f"Dead letters of {group}", blocks, "Dead letters")


async def exported(ask: Asker, request: Request) -> AsyncIterator[bytes]:
    """All dead letters of a search as lines of JSON, with whole bodies in base64.

    Raises:
        NotDone: A broker is silent: an incomplete export would look complete.
    """
    query = request.query_params
    asked = letter_pb.ListDeadLettersRequest(
        consumer_group=query.get("group", ""), query=letter_query(query), page_size=100
    )
    while True:
        answer = await ask(ask.api.dead_letters.ListDeadLetters, asked)
        for silent in answer.silent_brokers:
            raise NotDone(f"Broker {silent.broker_name} did not answer: {silent.error.message}")
        for letter in answer.dead_letters:
            row = MessageToDict(letter, preserving_proto_field_name=True)
            yield json.dumps(row, ensure_ascii=False).encode() + b"\n"
        asked.page_token = answer.next_page_token
        if not asked.page_token:
            return


async def delayed(ask: Asker, _request: Request) -> Page:
    """Delayed messages by broker."""
    answer = await ask(ask.api.delayed.ListDelayedMessages, delayed_pb.ListDelayedMessagesRequest())
    rows, levels = [], []
    for each in answer.brokers:
        waiting = each.delayed_messages
        lateness_s = waiting.lateness_duration_max.ToMilliseconds() / 1000
        rows.append(
            (
                Cell(each.broker_name, to("cluster", each.broker_name)),
                number(waiting.timed_pending_count),
                number(sum(level.pending_count for level in waiting.levels)),
                number(waiting.delivered_count),
                Cell(
                    f"{waiting.dropped_count:,}", kind="bad" if waiting.dropped_count else "number"
                ),
                span(lateness_s),
            )
        )
        levels += [
            (
                Cell(each.broker_name),
                number(level.level),
                span(level.wait_duration.ToMilliseconds() / 1000),
                number(level.pending_count),
                Cell(moment(level, "next_due_time"), kind="time"),
            )
            for level in waiting.levels
        ]
    columns = (
        *("Broker", "Due at a time", "Due after a level", "Delivered", "Dropped"),
        "Late by at most",
    )
    recall = Form(
        "Take a message back before it is delivered",
        "/delayed/recall",
        (
            Input("topic", "Topic", required=True),
            Input("handle", "Recall handle, from the result of its send", required=True),
        ),
        "Take it back",
        danger=True,
    )
    by_level = Table(
        "By level", ("Broker", "Level", "Waits", "Messages", "Next due"), levels, "Nothing waits."
    )
    blocks: list[Block] = [*silence(answer), Table("", columns, rows), by_level, recall]
    return Page("Delayed messages", blocks, "Delayed", refresh_s=5)


def letter_query(query: object) -> letter_pb.DeadLetterQuery:
    """The query of a search for dead letters."""
    get = query.get  # type: ignore[attr-defined]
    return letter_pb.DeadLetterQuery(
        origin_topic=get("topic", ""),
        key=get("key", ""),
        include_redriven=bool(get("redriven", "")),
    )


def time_in(text: str) -> Timestamp | None:
    """The value of a field for a time, in UTC; None if it is empty.

    Raises:
        ValueError: It is not a time.
    """
    if not text:
        return None
    time = Timestamp()
    time.FromDatetime(datetime.fromisoformat(text).replace(tzinfo=UTC))
    return time


def _facts(found: Message) -> list[tuple[str, Cell]]:
    position = found.position
    facts = [
        ("Topic", Cell(found.topic, to("topics", found.topic))),
        ("Place", Cell(f"{position.broker_name}/{position.queue_id}/{position.queue_offset}")),
        ("Message id", Cell(position.message_id, kind="code")),
        ("Unique id", Cell(found.unique_id, kind="code")),
        ("Tag", Cell(found.tag)),
        ("Keys", Cell(" ".join(found.keys))),
        ("Message group", Cell(found.message_group)),
        ("Made", Cell(moment(found, "create_time"))),
        ("Stored", Cell(moment(position, "store_time"))),
        ("From", Cell(position.producer_address)),
        ("Tries", Cell(str(position.attempts or ""))),
        ("Body", size(len(found.body))),
    ]
    own = sorted(found.properties.items())
    return [each for each in facts if each[1].text] + [(name, Cell(value)) for name, value in own]


def _body(body: bytes, form: str, here: str) -> Listing:
    text = _as_text(body)
    if not form:
        form = "hex" if text is None else "json" if _as_json(text) is not None else "text"
    shown = body[:HEX_BYTES_MAX].hex(" ")
    if form == "text" and text is not None:
        shown = text
    elif form == "json" and text is not None:
        shown = _as_json(text) or text
    links = [Cell(each, f"{here}?body={each}") for each in BODY_FORMS]
    return Listing(f"Body as {form}", shown, links)


def _as_text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _as_json(text: str) -> str | None:
    try:
        laid_out = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        laid_out.encode()  # No page has half of a surrogate pair, which JSON may escape.
    except (ValueError, RecursionError):
        return None
    return laid_out


def _short(body: bytes) -> str:
    """The beginning of a body on one line; lists have bodies that end within a character."""
    begin = body[:SHOWN_BYTES]
    try:
        decoder = codecs.getincrementaldecoder("utf-8")()
        text = decoder.decode(begin, final=len(body) < SHOWN_BYTES)
    except UnicodeDecodeError:
        return begin[: SHOWN_BYTES // 3].hex(" ")
    return " ".join(text.split())


def _table(found: Sequence[Message], more: str) -> Table:
    rows = [
        (
            Cell(moment(each.position, "store_time"), kind="time"),
            Cell(
                f"{each.position.broker_name}/{each.position.queue_id}/{each.position.queue_offset}",
                to("messages", each.topic, each.position.message_id),
                "code",
            ),
            Cell(each.tag),
            Cell(" ".join(each.keys)),
            Cell(_short(each.body), kind="body"),
        )
        for each in found
    ]
    return Table("", ("Stored", "Place", "Tag", "Keys", "Body"), rows, "No message.", more)


def _unfinished(answer: letter_pb.ListDeadLettersResponse) -> Sequence[Notice]:
    """The notice above a long search, with its progress."""
    if not answer.HasField("searched_to"):
        return ()
    return (
        Notice(f"Searched so far up to {_place(answer.searched_to)}; there are more behind it."),
    )


def _letters(answer: letter_pb.ListDeadLettersResponse, more: str) -> Table:
    rows = [
        (
            Cell(moment(each, "give_up_time"), kind="time"),
            Cell(
                _place(each.place),
                to("messages", each.message.topic, each.message.position.message_id),
                "code",
            ),
            Cell(each.origin_topic, to("topics", each.origin_topic)),
            Cell(each.reason.lower().replace("_", " ")),
            Cell(each.cause, kind="bad"),
            Cell(" ".join(each.message.keys)),
            Cell(_short(each.message.body), kind="body"),
            Cell("sent back", kind="good") if each.redriven else Cell(""),
        )
        for each in answer.dead_letters
    ]
    columns = ("Given up", "Place", "From", "Why", "Last error", "Keys", "Body", "")
    if answer.HasField("searched_to"):
        return Table("", columns, rows, "None found so far.", more, "Search on")
    return Table("", columns, rows, "No dead letter.", more)


def _place(place: letter_pb.DeadLetterPlace) -> str:
    return f"{place.broker_name}/{place.queue_id}/{place.queue_offset}"
