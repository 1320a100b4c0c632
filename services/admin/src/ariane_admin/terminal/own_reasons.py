"""Words behind errors that no service sends: the client's own, and names of exit statuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class OwnReason(NamedTuple):
    """One word.

    Attributes:
        reason: The word.
        means: What has happened.
        do: What helps.
        repeat: Whether the same may succeed later: "no", "yes", or "unknown outcome".
    """

    reason: str
    means: str
    do: str
    repeat: str = "no"

    def row(self) -> Mapping[str, str]:
        """As the contract's are shown; no code of gRPC belongs to it."""
        return {
            "reason": self.reason,
            "code": "",
            "repeat": self.repeat,
            "means": self.means,
            "do": self.do,
        }


_TRACE: Final = "Read the line; ariane --trace shows where it comes from."
_UNKNOWN: Final = "unknown outcome"

OWN_REASONS: Final = (
    OwnReason(
        "UNREACHABLE",
        "Nobody answers at an address, or a service is starting, draining, busy or full. As a"
        " status of a command: not all answered (3).",
        "Look whether the process lives and the address is right: ariane doctor, run from here.",
        "yes",
    ),
    OwnReason(
        "NOT_NAME_SERVER",
        "A process answers at the address that was given for a name server, and is none.",
        "Name the address of a name server by --name-servers or ARIANE_NAME_SERVERS.",
    ),
    OwnReason(
        "NO_BROKER",
        "Name servers answer, and no broker is registered with them, or none of those asked for.",
        "Start a broker, or look at its log why it does not register: ariane doctor.",
        "yes",
    ),
    OwnReason(
        "BATCH_INCOMPLETE",
        "Some messages of a batch were not acknowledged.",
        "Send those again that the error names.",
    ),
    OwnReason(
        "CLIENT_FORKED",
        "A client was used in a process that was forked after the client was made.",
        "Make clients after the fork.",
    ),
    OwnReason(
        "CLIENT_NOT_RUNNING",
        "A client was used before it was started, or after it was closed.",
        "Use it inside its `with` block.",
    ),
    OwnReason(
        "CONSUMER_OFFSET_REFUSED",
        "Some consumer offsets were not stored; the others were.",
        "Correct those that the error names.",
    ),
    OwnReason(
        "MESSAGES_FAILED",
        "A listener was done with some of its messages only; the others come again.",
        "Look for the cause in the listener's own log.",
    ),
    OwnReason(
        "NO_REQUEST",
        "A message that is to be answered is no request.",
        "Answer only what a request has sent.",
    ),
    OwnReason(
        "OFFSET_FILE_DAMAGED",
        "The file with the offsets of a broadcasting consumer cannot be read, nor the one before.",
        "Delete the file: the consumer begins where its settings say.",
    ),
    OwnReason(
        "OFFSET_FILE_IN_USE",
        "Another consumer of this host keeps its offsets in the same file.",
        "Give each its own file.",
    ),
    OwnReason(
        "QUEUE_ORDER_UNKNOWN",
        "Nobody could tell in time to which queues the message groups of a topic belong.",
        "Wait until a name server that knows the order answers: ariane topic order NAME.",
        "yes",
    ),
    OwnReason(
        "FILTER_SERVERS_UNREACHABLE",
        "No FilterServer of a broker answered a group with an uploaded filter, though the broker "
        "does. The group has lost nothing: its offsets stay.",
        "Start a FilterServer beside the broker; ariane filter list tells which answer.",
        "yes",
    ),
    OwnReason(
        "REQUEST_TIMEOUT",
        "No reply came in time. The request is stored, and whoever got it may have acted on it.",
        "Look whether it was done before it is asked again.",
        _UNKNOWN,
    ),
    OwnReason(
        "REQUEST_TOO_LARGE",
        "More bytes, or more metadata, than the service takes in one call.",
        "Send less in one call, or raise the service's receive_bytes_max.",
    ),
    OwnReason(
        "SEND_BUFFER_FULL",
        "A message was to be sent without waiting, and there was no room for it.",
        "Wait for room, or let the buffer be larger.",
        "yes",
    ),
    OwnReason("UNSPECIFIED", "An error of the client that has no word of its own.", _TRACE),
    OwnReason(
        "FAILED",
        "The command did not do what was asked, and no other word says why (exit status 1).",
        _TRACE,
    ),
    OwnReason(
        "USAGE",
        "The command line is wrong; nothing was tried (exit status 2).",
        "Correct it; --help behind the command says what there is.",
    ),
    OwnReason(
        "NOT_FOUND",
        "The topic, queue, group or message does not exist (exit status 4).",
        "Look how it is written, and whether it is the right cluster.",
    ),
    OwnReason(
        "REFUSED",
        "It exists, but this caller or this moment does not allow it (exit status 5).",
        "Read the line: it says what stands in the way.",
    ),
    OwnReason(
        "OUTCOME_UNKNOWN",
        "It may have happened (exit status 6).",
        "Look before you say it again.",
        _UNKNOWN,
    ),
)
