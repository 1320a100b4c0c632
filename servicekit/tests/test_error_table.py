from __future__ import annotations

import re
from pathlib import Path

import grpc
import pytest

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


@pytest.mark.parametrize("row", ERROR_TABLE.values(), ids=lambda row: row.name)
class TestRow:
    def test_code_and_retry_info_are_those_of_the_contract(self, row):
        comment = proto_comments()[ErrorReason.Name(row.reason)]
        named = [word for word in re.findall(r"[A-Z_]{5,}", comment) if word in CODE_NAMES]
        assert named == [row.code.name]
        assert ("RetryInfo" in comment) == (row.retry_after_ms is not None)

    def test_unknown_outcome_is_told_by_the_contract(self, row):
        comment = proto_comments()[ErrorReason.Name(row.reason)]
        if "outcome is unknown" in comment:
            assert row.outcome_unknown

    def test_hint_is_a_sentence(self, row):
        assert row.hint[0].isupper()
        assert row.hint.endswith(".")

    def test_only_codes_that_may_pass_by_themselves_are_retriable(self, row):
        passing = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert row.retriable == (row.code in passing)

    def test_what_has_an_unknown_outcome_is_never_retried_by_itself(self, row):
        assert not (row.retriable and row.outcome_unknown)

    def test_invalid_arguments_name_a_field(self, row):
        assert bool(row.field) == (row.code is grpc.StatusCode.INVALID_ARGUMENT)

    def test_name_is_what_error_info_allows(self, row):
        # AIP-193: [A-Z][A-Z0-9_]+[A-Z0-9], 63 characters at most.
        assert re.fullmatch(r"[A-Z][A-Z0-9_]+[A-Z0-9]", row.name)
        assert len(row.name) <= 63
