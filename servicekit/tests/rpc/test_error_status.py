from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RequestInfo, RetryInfo
from structlog.testing import capture_logs

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit import ErrorTranslator, ServiceError, feature_not_available, field_invalid
from ariane_servicekit.error_table import ERROR_TABLE
from ariane_servicekit.rpc.error_status import status_of


class EngineError(Exception):
    pass


class EngineFull(EngineError):
    pass


def rule(reason):
    return lambda error: ServiceError(reason, f"the engine says {error}")


def test_every_status_has_one_error_info_and_what_the_table_wants(details_of):
    for reason, row in ERROR_TABLE.items():
        error = ServiceError(reason, "text 7", {"number": 7})
        details = details_of(status_of(error))
        [error_info] = details[ErrorInfo]
        assert error_info.domain == "ariane.mq"
        assert error_info.reason == row.name
        assert dict(error_info.metadata) == {"number": "7"}
        assert len(details[RetryInfo]) == (row.retry_after_ms is not None), row.name
        assert len(details[BadRequest]) == (row.code.name == "INVALID_ARGUMENT"), row.name
        assert details[RequestInfo] == []
        assert status_of(error).code == row.code.value[0], row.name


def test_the_error_may_name_its_own_wait_and_field(details_of):
    busy = ServiceError(ErrorReason.ERROR_REASON_SERVICE_BUSY, "later", retry_after_ms=1500)
    [retry] = details_of(status_of(busy))[RetryInfo]
    assert retry.retry_delay.ToMilliseconds() == 1500
    too_large = ServiceError(
        ErrorReason.ERROR_REASON_MESSAGE_TOO_LARGE, "too large", field="messages[3].body"
    )
    [bad] = details_of(status_of(too_large))[BadRequest]
    assert [violation.field for violation in bad.field_violations] == ["messages[3].body"]


def test_field_invalid_reads_as_a_sentence_whatever_the_rule():
    assert str(field_invalid("projection", "is not known", 99)) == "projection is not known: 99"
    assert str(field_invalid("size", "must be 1 to 4", 9)) == "size must be 1 to 4, not 9"


def test_field_invalid_names_field_and_value(details_of):
    error = field_invalid("batches[2].queue_id", "must be at least 0", -1)
    assert str(error) == "batches[2].queue_id must be at least 0, not -1"
    details = details_of(status_of(error))
    assert dict(details[ErrorInfo][0].metadata) == {"field": "batches[2].queue_id", "value": "-1"}
    assert details[BadRequest][0].field_violations[0].field == "batches[2].queue_id"


@pytest.mark.parametrize("character", ["x", "\N{SNOWMAN}", "\N{GRINNING FACE}"])
def test_an_error_fits_a_trailer_however_long_the_name_that_it_repeats(character):
    name = character * 100_000
    status = status_of(
        ServiceError(
            ErrorReason.ERROR_REASON_TOPIC_NAME_ILLEGAL, f"topic {name!r}", {"topic": name}
        )
    )
    assert status.message.startswith(f"topic '{character * 100}")
    assert ".... Use 1 to 127 characters" in status.message
    # The text goes percent-encoded, the whole status in base64; gRPC takes 8 KiB for sure.
    assert 3 * len(status.message.encode()) + status.ByteSize() * 4 / 3 < 8_000


def test_feature_not_available_names_the_feature():
    error = feature_not_available("SQL filters")
    assert error.metadata == {"feature": "SQL filters"}


def test_the_nearest_ancestor_rules():
    translator = ErrorTranslator(
        {
            EngineError: rule(ErrorReason.ERROR_REASON_STORE_POISONED),
            EngineFull: rule(ErrorReason.ERROR_REASON_STORE_FULL),
        }
    )

    class EngineSlow(EngineError):
        pass

    assert translator.service_error(EngineFull("x")).row.name == "STORE_FULL"
    assert translator.service_error(EngineSlow("x")).row.name == "STORE_POISONED"
    assert str(translator.service_error(EngineSlow("x"))) == "the engine says x"


def test_public_errors_pass_as_they_are():
    error = field_invalid("topic", "is required")
    assert ErrorTranslator().service_error(error) is error


def test_the_kit_knows_undecodable_and_unimplemented():
    translator = ErrorTranslator()
    assert translator.service_error(DecodeError()).row.name == "FIELD_INVALID"
    assert translator.service_error(NotImplementedError()).row.name == "FEATURE_NOT_AVAILABLE"


def test_an_unknown_exception_leaves_without_its_text_and_is_logged_with_it():
    secret = KeyError("password 1234")
    with capture_logs() as lines:
        status = ErrorTranslator().status(secret)
    assert "1234" not in str(status)
    assert status.code == 13
    [line] = lines
    assert line["event"] == "unexpected_exception"
    assert line["exc_info"] is secret
