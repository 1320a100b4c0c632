"""``docs/errors.md``: every reason that a call may fail for."""

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
"""What the reasons of each block of numbers are about: the first has 1 to 19, the next 20 to 39."""

# Numbers of fields in google/protobuf/descriptor.proto, which the places of comments are made of.
_ENUM_TYPE: Final = 5
_ENUM_VALUE: Final = 2

_INTRODUCTION: Final = """
An error is a `google.rpc.Status` with one `google.rpc.ErrorInfo`: domain `ariane.mq`, one of the
reasons below, and in its metadata every number and name that the text speaks of. `RetryInfo` says
how long to wait, `BadRequest` which field was wrong. Reasons are only ever added.

- **Repeat** says whether the same call can succeed later, or at another broker, without a change.
- **Unknown outcome** means that the call may have had its effect although it failed: look before
  you repeat it.
- What is set as `code` behind a semicolon is a key of the metadata.

The Python client raises them as [exceptions](../sdk/python/README.md#errors) with the attributes
`reason`, `retriable`, `outcome_unknown`, `retry_after_s` and `metadata`; the command line ends with
[a status](command-line.md) that says as much, and writes the reason in brackets behind the line of
an error; `ariane explain REASON` says what stands here.

What gRPC itself refuses bears no ErrorInfo: `RESOURCE_EXHAUSTED` for a request beyond
`receive_bytes_max` or metadata beyond `metadata_bytes_max`, `UNAVAILABLE` for a connection that
broke or could not be made. Only with the last one it is certain that nothing has happened.
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
            "means": _meaning(row, comments[row.name]),
            "do": row.hint,
        }
        for row in sorted(ERROR_TABLE.values(), key=lambda row: int(row.reason))
    ]
    return json.dumps(rows, indent=1) + "\n"


def _line(row: ErrorRow, comment: str) -> list[str]:
    return [code(row.name), code(row.code.name), _repeat(row), _meaning(row, comment), row.hint]


def _repeat(row: ErrorRow) -> str:
    if row.outcome_unknown:
        return "**unknown outcome**"
    if not row.retriable:
        return "no"
    return "yes" if row.retry_after_ms is None else f"yes, after {row.retry_after_ms / 1000:g} s"


def _meaning(row: ErrorRow, comment: str) -> str:
    """The contract's comment without the code, which it ends with.

    Raises:
        AssertionError: Comment and table name different codes.
    """
    for ending in (f" {row.code.name}.", f" {row.code.name} with RetryInfo."):
        if comment.endswith(ending):
            return comment.removesuffix(ending)
    raise AssertionError(f"{row.name}: its comment does not end with {row.code.name}")


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
