"""``docs/errors.md``: every reason for which a call may fail."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from ariane_servicekit.error_row import REASON_PREFIX, ErrorRow
from ariane_servicekit.error_table import ERROR_TABLE
from tools.protos import image
from tools.reference.markdown import code, made_from, page, table

PROTO: Final = "ariane/common/v1/error_reason.proto"

BLOCK_SIZE: Final = 20

BLOCKS: Final = (
    "Any call",
    "Topics and queues",
    "Sending",
    "Reading",
    "Groups and clients",
    "Transactions and receipts",
    "Cluster",
    "Replication",
    "Filters",
    "Administration",
)
"""The subject of each block of numbers: the first has 1 to 19, the next 20 to 39."""

# Numbers of fields in google/protobuf/descriptor.proto, which the places of comments are made of.
_ENUM_TYPE: Final = 5
_ENUM_VALUE: Final = 2

_INTRODUCTION: Final = """
An error is a `google.rpc.Status` with one `google.rpc.ErrorInfo`: domain `ariane.mq`, one of the
reasons below, and in its metadata every number and name in the text. `RetryInfo` says how long to
wait, and `BadRequest` which field was wrong. Reasons are only ever added.

- **Repeat** says whether the same call can succeed later, or at another broker, without a change.
- **Unknown outcome** means that the call may have taken effect although it failed: look before you
  repeat it.
- Words in `code` behind a semicolon are keys of the metadata.

The Python client raises errors as [exceptions](../sdk/python/README.md#errors) with the attributes
`reason`, `retriable`, `outcome_unknown`, `retry_after_s` and `metadata`. The command line prints
the reason in brackets behind its line, and ends with a corresponding [status](command-line.md).
`ariane explain REASON` prints the row of this page.

Errors of gRPC itself have no ErrorInfo: `RESOURCE_EXHAUSTED` for a request beyond
`receive_bytes_max` or metadata beyond `metadata_bytes_max`, and `UNAVAILABLE` for a connection that
broke or could not be opened. Only if it could not be opened is it certain that nothing happened.
"""


def render() -> str:
    """The whole page.

    Raises:
        IndexError: A reason lies in a block that has no heading yet.
    """
    comments = reason_comments()
    rows = sorted(ERROR_TABLE.values(), key=lambda row: int(row.reason))
    parts = []
    for block, members in groupby(rows, key=lambda row: row.reason // BLOCK_SIZE):
        lines = [_line(row, comments[row.name]) for row in members]
        header = ["Reason", "Code", "Repeat", "Means", "Do"]
        parts += [f"## {BLOCKS[block]}", table(header, lines)]
    return page("# Errors", made_from(f"`{PROTO}` and the error table"), _INTRODUCTION, *parts)


def render_reasons() -> str:
    """The same for ``ariane explain``: a list of objects as JSON."""
    comments = reason_comments()
    rows = [
        {
            "reason": row.name,
            "code": row.code.name,
            "repeat": _repeat(row).strip("*"),
            "means": comments[row.name],
            "do": row.hint,
        }
        for row in sorted(ERROR_TABLE.values(), key=lambda row: int(row.reason))
    ]
    return json.dumps(rows, indent=1) + "\n"


def _line(row: ErrorRow, comment: str) -> list[str]:
    return [code(row.name), code(row.code.name), _repeat(row), comment, row.hint]


def _repeat(row: ErrorRow) -> str:
    if row.outcome_unknown:
        return "**unknown outcome**"
    if not row.retriable:
        return "no"
    return "yes" if row.retry_after_ms is None else f"yes, after {row.retry_after_ms / 1000:g} s"


def reason_comments() -> dict[str, str]:
    """The contract's comment on each reason, on one line, by the name on the wire."""
    with image(source_comments=True) as path:
        files = FileDescriptorSet.FromString(path.read_bytes()).file
    [file] = [each for each in files if each.name == PROTO]
    comments = {}
    for location in file.source_code_info.location:
        match list(location.path):
            case [field, enum, part, place] if (field, part) == (_ENUM_TYPE, _ENUM_VALUE):
                name = file.enum_type[enum].value[place].name.removeprefix(REASON_PREFIX)
                comments[name] = " ".join(location.leading_comments.split())
    return comments
