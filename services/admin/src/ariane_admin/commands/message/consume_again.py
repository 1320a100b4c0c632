"""``ariane message consume-again``: a chosen consumer gets a stored message beside what it has."""

from __future__ import annotations

from typing import Final

import click
from google.protobuf.duration_pb2 import Duration

from ariane.admin.v1.message_service_pb2 import ConsumeMessageRequest
from ariane.broker.v1.client_question_pb2 import (
    CONSUME_OUTCOME_CONSUMED,
    CONSUME_OUTCOME_RAISED,
    CONSUME_OUTCOME_REFUSED,
    CONSUME_OUTCOME_RETRY,
    ConsumeOutcome,
)
from ariane_admin.asking.admin_service import ADMIN_SECONDS_MAX
from ariane_admin.asking.changing.changes import AdminChoice, change_options, changed
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.confirmation import confirm, yes_option
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output

WAIT_SECONDS_MAX: Final = 60

_WORDS: Final[dict[ConsumeOutcome.ValueType, str]] = {
    CONSUME_OUTCOME_CONSUMED: "consumed",
    CONSUME_OUTCOME_RETRY: "retry",
    CONSUME_OUTCOME_RAISED: "raised",
    CONSUME_OUTCOME_REFUSED: "refused",
}


@click.command("consume-again")
@click.argument("message_id")
@click.option("--group", required=True, help="The consumer group.")
@click.option(
    "--member",
    "client_id",
    required=True,
    help="The client id of a live member (ariane group show lists them).",
)
@click.option("--topic", default="", help="Topic of the message; required with a unique id.")
@click.option(
    "--wait",
    "wait_s",
    type=click.IntRange(1, WAIT_SECONDS_MAX),
    default=10,
    show_default=True,
    help="Seconds to wait for the listener.",
)
@yes_option
@change_options
def consume_again(
    *,
    message_id: str,
    group: str,
    client_id: str,
    topic: str,
    wait_s: int,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> ExitStatus:
    """Have a live member of a group consume message MESSAGE_ID once more, now.

    The member's listener gets the message beside its normal work, so its side effects happen again.
    No offset moves, and a failure is reported but not retried. The message must be from a topic
    that the group subscribes to, or one of its dead letters.

    The exit status is 0 if the listener succeeded, 1 if it failed, 5 if the member refuses (its
    setting consume_on_request), and 6 if no answer came in time: the listener may still be running.

    \b
    Examples:
      ariane message consume-again 7F00000100002A9F00000000000001BC --group billing --member ID
      ariane message consume-again 0A1B2C3D4E5F60718293A4B5C6D7E8F9 --topic orders --group billing --member ID
    """  # noqa: D301, E501 - \b is click's mark for text that keeps its lines
    confirm(
        f"Have {client_id} of group {group} consume message {message_id} once more? Whatever its"
        " listener does, it does again.",
        yes=yes,
    )
    request = ConsumeMessageRequest(
        consumer_group=group,
        client_id=client_id,
        message_id=message_id,
        topic=topic,
        wait_duration=Duration(seconds=wait_s),
    )
    answer = changed(
        name_servers,
        admin,
        lambda one: one.messages.ConsumeMessage,
        request,
        seconds_max=wait_s + ADMIN_SECONDS_MAX,
    ).answer
    took_ms = answer.duration.ToMicroseconds() / 1000 if answer.HasField("duration") else None
    word = _WORDS.get(answer.outcome, "unknown")
    if answer.outcome == CONSUME_OUTCOME_CONSUMED:
        output.done(
            f"Consumed by {client_id} in {took_ms or 0:.1f} ms; no offset was moved.",
            _row(message_id, group, client_id, word, took_ms),
        )
        return ExitStatus.DONE
    if output.for_programs:
        row = _row(message_id, group, client_id, word, took_ms)
        output.record({**row, "cause": answer.cause})
    if answer.outcome == CONSUME_OUTCOME_REFUSED:
        raise CommandFailed(f"{client_id} refuses: {answer.cause}", ExitStatus.REFUSED)
    says = "would have it again" if answer.outcome == CONSUME_OUTCOME_RETRY else "raised an error"
    raise CommandFailed(
        f"the listener of {client_id} {says} after {took_ms or 0:.1f} ms: {answer.cause}",
        ExitStatus.FAILED,
    )


def _row(
    message_id: str, group: str, client_id: str, outcome: str, took_ms: float | None
) -> dict[str, object]:
    return {
        "message_id": message_id,
        "group": group,
        "client_id": client_id,
        "outcome": outcome,
        "cause": "",
        "duration_ms": took_ms,
    }
