from __future__ import annotations

import re
from pathlib import Path

import grpc

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.error_table import ERROR_TABLE

PROTO = Path(__file__).parents[2] / "protos/ariane/common/v1/error_reason.proto"
CODE_NAMES = {code.name for code in grpc.StatusCode}


def proto_comments() -> dict[str, str]:
    """The comment above each value of the enum, in one line."""
    comments: dict[str, str] = {}
    lines: list[str] = []
    for line in PROTO.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text.startswith("//"):
            lines.append(text.removeprefix("//").strip())
        elif value := re.match(r"(ERROR_REASON_\w+) = \d+;", text):
            comments[value[1]] = " ".join(lines)
            lines = []
        else:
            lines = []
    return comments


def test_every_reason_but_unspecified_has_a_row():
    reasons = set(ErrorReason.values()) - {ErrorReason.ERROR_REASON_UNSPECIFIED}
    assert set(ERROR_TABLE) == reasons


def breaks(rule):
    """Names of the rows that a rule does not hold for."""
    comments = proto_comments()
    return [
        row.name
        for row in ERROR_TABLE.values()
        if not rule(row, comments[ErrorReason.Name(row.reason)])
    ]


def test_code_is_that_of_the_contract():
    def says_one_code(row, comment):
        named = [word for word in re.findall(r"[A-Z_]{5,}", comment) if word in CODE_NAMES]
        return named == [row.code.name]

    assert breaks(says_one_code) == []


def test_retry_info_is_told_by_the_contract():
    assert breaks(lambda row, text: ("RetryInfo" in text) == (row.retry_after_ms is not None)) == []


def test_unknown_outcome_is_told_by_the_contract():
    assert breaks(lambda row, text: ("outcome is unknown" in text) == row.outcome_unknown) == []


def test_hint_is_a_sentence():
    assert breaks(lambda row, _: row.hint[0].isupper() and row.hint.endswith(".")) == []


def test_only_codes_that_may_pass_by_themselves_are_retriable():
    passing = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED}
    # These succeed at the present primary, and with a later deadline.
    elsewhere = {"BROKER_NOT_PRIMARY", "DEADLINE_PASSED"}
    assert (
        breaks(lambda row, _: row.retriable == (row.code in passing or row.name in elsewhere)) == []
    )


def test_what_has_an_unknown_outcome_is_never_retried_by_itself():
    assert breaks(lambda row, _: not (row.retriable and row.outcome_unknown)) == []


def test_invalid_arguments_name_a_field():
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    assert breaks(lambda row, _: bool(row.field) == (row.code is invalid)) == []


def test_name_is_what_error_info_allows():
    # AIP-193: [A-Z][A-Z0-9_]+[A-Z0-9], 63 characters at most.
    allowed = re.compile(r"(?=.{1,63}$)[A-Z][A-Z0-9_]+[A-Z0-9]")
    assert breaks(lambda row, _: allowed.fullmatch(row.name)) == []
