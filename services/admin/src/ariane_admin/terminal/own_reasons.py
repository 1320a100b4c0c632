"""Words behind errors that no service sends: the client's own, and names of exit statuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class OwnReason(NamedTuple):
    """One word."""

    reason: str
    """The word."""
    means: str
    """What has happened."""
    do: str
    """What helps."""
    repeat: str = "no"
    """Whether the same may succeed later: "no", "yes", or "unknown outcome"."""

    def row(self) -> Mapping[str, str]:
        """As the contract's are shown; no code of gRPC belongs to it."""
        return {
            "reason": self.reason,
            "code": "",
            "repeat": self.repeat,
            "means": self.means,
            "do": self.do,
        }


_TRACE: Final = "Read the error text; ariane --trace shows where it comes from."
_UNKNOWN: Final = "unknown outcome"

OWN_REASONS: Final = (
    OwnReason(
        "UNREACHABLE",
        "Nothing answers at an address, or a service is starting, draining, busy or"
        " full. As the status of a command (3): some processes did not answer.",
        "Check that the process runs and that the address is right: run ariane doctor"
        " on this machine.",
        "yes",
    ),
    OwnReason(
        "NOT_NAME_SERVER",
        ("The process that answers at the address given for a name server is not a name server."),
        "Give the address of a name server with --name-servers or ARIANE_NAME_SERVERS.",
    ),
    OwnReason(
        "NO_BROKER",
        ("Name servers answer, but no broker is registered with them, or none of those requested."),
        "Start a broker. If one runs, run ariane doctor and read its log to see why it"
        " does not register.",
        "yes",
    ),
    OwnReason(
        "BATCH_INCOMPLETE",
        "Some messages of a batch were not acknowledged.",
        "Send again those that are not stored. Of those whose outcome is unknown, look first"
        " whether they are.",
    ),
    OwnReason(
        "CLIENT_FORKED",
        "A client was used in a process that was forked after the client was created.",
        "Create clients after the fork.",
    ),
    OwnReason(
        "CLIENT_NOT_RUNNING",
        "A client was used before it was started, or after it was closed.",
        "Use it inside its `with` block.",
    ),
    OwnReason(
        "CLIENT_ON_OTHER_LOOP",
        "A client was used on another event loop than the one that started it.",
        "Call it from its own loop, or make a client for each loop.",
    ),
    OwnReason(
        "CONSUMER_OFFSET_REFUSED",
        "Some consumer offsets were not stored; the others were.",
        "Correct the offsets that the error names.",
    ),
    OwnReason(
        "CONSUMPTION_HELD",
        "A listener cannot work now; its messages are delivered again at the time that it named.",
        "Find what the listener waits for in its own log.",
    ),
    OwnReason(
        "MESSAGES_FAILED",
        "A listener consumed only some of its messages; the others are delivered again.",
        "Find the cause in the listener's own log.",
    ),
    OwnReason(
        "NO_REQUEST",
        "The message to reply to is not a request.",
        "Reply only to messages that were sent as requests.",
    ),
    OwnReason(
        "OFFSET_FILE_DAMAGED",
        "Neither the offset file of a broadcasting consumer nor its previous version can be read.",
        "Delete the file: the consumer then starts where its settings say.",
    ),
    OwnReason(
        "OFFSET_FILE_IN_USE",
        "Another consumer on this host keeps its offsets in the same file.",
        "Give each consumer its own file.",
    ),
    OwnReason(
        "QUEUE_ORDER_UNKNOWN",
        ("No name server could say in time to which queues the message groups of a topic belong."),
        "Wait until a name server that knows the queue order answers; check with"
        " ariane topic order NAME.",
        "yes",
    ),
    OwnReason(
        "FILTER_SERVERS_UNREACHABLE",
        "A broker answers, but none of its FilterServers does, so a group with an"
        " uploaded filter cannot consume. The group loses no messages: its offsets stay.",
        ("Start a FilterServer beside the broker; ariane filter list shows which ones answer."),
        "yes",
    ),
    OwnReason(
        "REQUEST_TIMEOUT",
        ("No reply came in time. The request is stored, and its receiver may have acted on it."),
        "Check whether it was done before you send the request again.",
        _UNKNOWN,
    ),
    OwnReason(
        "REQUEST_TOO_LARGE",
        ("The call has more bytes, or more metadata, than the service accepts in one call."),
        "Send less in one call, or raise the service's receive_bytes_max.",
    ),
    OwnReason(
        "SEND_BUFFER_FULL",
        "A message was sent without waiting, but the send buffer was full.",
        "Wait for room, or make the buffer larger.",
        "yes",
    ),
    OwnReason("UNSPECIFIED", "An error of the client that has no reason of its own.", _TRACE),
    OwnReason(
        "FAILED",
        "The command failed, and no other reason fits (exit status 1).",
        _TRACE,
    ),
    OwnReason(
        "USAGE",
        "The command line is wrong; nothing was tried (exit status 2).",
        "Correct it; --help after the command shows its arguments and options.",
    ),
    OwnReason(
        "NOT_FOUND",
        "The topic, queue, group or message does not exist (exit status 4).",
        "Check the spelling, and that you are asking the right cluster.",
    ),
    OwnReason(
        "REFUSED",
        "It exists, but this caller or this moment does not allow it (exit status 5).",
        "Read the error text: it says what prevents it.",
    ),
    OwnReason(
        "OUTCOME_UNKNOWN",
        "The outcome is unknown: it may have been done (exit status 6).",
        "Check the outcome before you repeat it.",
        _UNKNOWN,
    ),
)
