"""Moments on their way to the contract."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from ariane_sdk.errors import IllegalArgument
from ariane_sdk.net.timestamps import moment_from, timestamp_from

WEST = timezone(timedelta(hours=-5))


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 1, 31),  # noqa: DTZ001 - that is what is refused
        datetime.max.replace(tzinfo=WEST),
        "2026-01-31T10:00:00Z",
        None,
    ],
)
def test_an_invalid_moment_is_refused(moment):
    with pytest.raises(IllegalArgument):
        timestamp_from(moment)


@pytest.mark.parametrize(
    "moment", [datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 1, 31, 10, 0, 0, 1, tzinfo=WEST)]
)
def test_a_moment_comes_back(moment):
    assert moment_from(timestamp_from(moment)) == moment
