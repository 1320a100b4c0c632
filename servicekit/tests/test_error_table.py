from __future__ import annotations

import re

import grpc
import pytest

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit import error_table
from ariane_servicekit.error_table import ERROR_TABLE
from ariane_servicekit.errors import refusal


def test_every_reason_but_unspecified_has_a_row():
    reasons = set(ErrorReason.values()) - {ErrorReason.ERROR_REASON_UNSPECIFIED}
    assert set(ERROR_TABLE) == reasons


def breaks(rule):
    """Names of the rows that a rule does not hold for."""
    return [row.name for row in ERROR_TABLE.values() if not rule(row)]


def test_no_row_is_of_a_reason_that_the_contract_lacks():
    names = {row.name for row in ERROR_TABLE.values()}
    assert set(error_table._HINTS) == names
    assert set(error_table._FIELDS) <= names


def test_every_reason_has_a_code_of_an_error():
    assert breaks(lambda row: row.code is not grpc.StatusCode.OK) == []


def test_only_what_may_be_repeated_or_waited_for_has_a_wait():
    assert breaks(lambda row: row.retriable or row.retry_after_ms is None) == []


def test_hint_is_a_sentence():
    assert breaks(lambda row: row.hint[0].isupper() and row.hint.endswith(".")) == []


def test_only_codes_that_may_pass_by_themselves_are_retriable():
    passing = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED}
    # These succeed at the present primary, and with a later deadline.
    elsewhere = {"BROKER_NOT_PRIMARY", "DEADLINE_PASSED"}
    assert breaks(lambda row: row.retriable == (row.code in passing or row.name in elsewhere)) == []


def test_what_has_an_unknown_outcome_is_never_retried_by_itself():
    assert breaks(lambda row: not (row.retriable and row.outcome_unknown)) == []


def test_invalid_arguments_name_a_field():
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    assert breaks(lambda row: bool(row.field) == (row.code is invalid)) == []


def test_name_is_what_error_info_allows():
    # AIP-193: [A-Z][A-Z0-9_]+[A-Z0-9], 63 characters at most.
    allowed = re.compile(r"(?=.{1,63}$)[A-Z][A-Z0-9_]+[A-Z0-9]")
    assert breaks(lambda row: allowed.fullmatch(row.name)) == []


def test_a_refusal_has_its_arguments_as_metadata_by_their_names():
    @refusal(ErrorReason.ERROR_REASON_QUEUE_NOT_FOUND, field="table.queue_id", retry_after_ms=5)
    def missing(topic: str, queue_id: int) -> str:
        return f"queue {queue_id} of {topic}"

    error = missing("orders", queue_id=3)
    assert (error.reason, str(error)) == (
        ErrorReason.ERROR_REASON_QUEUE_NOT_FOUND,
        "queue 3 of orders",
    )
    assert error.metadata == {"topic": "orders", "queue_id": "3"}
    assert (error.field, error.retry_after_ms) == ("table.queue_id", 5)


def test_a_refusal_says_what_is_metadata_and_under_which_name():
    @refusal(
        ErrorReason.ERROR_REASON_QUEUE_LOCK_FENCED,
        field="queues[{position}]",
        without=("position", "epoch"),
        renamed={"latest": "epoch"},
    )
    def fenced(position: int, epoch: int, latest: int | None, setting: str = "locks") -> str:
        return f"{position}: {epoch} is no longer held, see {setting}"

    error = fenced(2, 7, latest=9)
    assert str(error) == "2: 7 is no longer held, see locks"
    assert error.metadata == {"epoch": "9", "setting": "locks"}
    assert error.field == "queues[2]"
    assert fenced(2, 7, None, "others").metadata == {"epoch": "", "setting": "others"}


@pytest.mark.parametrize("options", [{"without": ("nothing",)}, {"renamed": {"nothing": "all"}}])
def test_a_refusal_names_only_arguments_that_it_has(options):
    of = refusal(ErrorReason.ERROR_REASON_TOPIC_NOT_FOUND, **options)
    with pytest.raises(TypeError, match="nothing"):

        @of
        def missing(topic: str) -> str:
            return topic
