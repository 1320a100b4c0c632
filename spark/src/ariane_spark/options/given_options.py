"""The options of a user: texts by name, checked as a whole and read one by one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Final

from ariane_record import IllegalName
from ariane_record.names import check_group_name, check_topic_name
from ariane_spark.errors import FeatureNotAvailable, OptionIllegal, UnknownOption
from ariane_spark.options.option_table import FOREIGN_NAMES, OPTION_BY_KEY, OPTIONS, Use

_UNIT_MS: Final = {
    "ms": 1,
    "millisecond": 1,
    "s": 1000,
    "second": 1000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
}
_DURATION: Final = re.compile(r"([0-9]{1,9})\s*([a-z]+)")

NUMBER_MAX: Final = 2**63 - 1
"""The largest number in Spark and on the wire."""

TIMESTAMP_MS_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999; no time on the wire is later."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class GivenOptions:
    """The options of one query."""

    def __init__(self, given: Mapping[str, str], use: Use) -> None:
        """Take the options of a query.

        Args:
            given: The options by name; the case of names does not matter.
            use: The kind of query.

        Raises:
            UnknownOption: A name is unknown.
            FeatureNotAvailable: An option is planned for a later version.
            OptionIllegal: An option has no meaning for this use.
        """
        self._given = {name.lower(): value for name, value in given.items()}
        for key in self._given:
            _check_name(key, use)

    def text(self, name: str) -> str | None:
        """The value without surrounding space, or None."""
        value = self._given.get(name.lower())
        if value is not None and not value.strip():
            raise OptionIllegal(name, "is empty")
        return value and value.strip()

    def required_text(self, name: str, hint: str) -> str:
        """The value; it must be given."""
        value = self.text(name)
        if value is None:
            raise OptionIllegal(name, f"is missing; {hint}")
        return value

    def only_one_of(self, *names: str) -> str | None:
        """The name of the only one that is given, or None.

        Raises:
            OptionIllegal: More than one is given.
        """
        given = [name for name in names if self.text(name) is not None]
        if len(given) > 1:
            raise OptionIllegal(given[1], f"contradicts {given[0]!r}; give one of them")
        return given[0] if given else None

    def names(self, name: str) -> tuple[str, ...] | None:
        """The names in the value, separated by commas; no name may be there twice."""
        value = self.text(name)
        if value is None:
            return None
        names = tuple(part.strip() for part in value.split(","))
        if "" in names or len(set(names)) < len(names):
            raise OptionIllegal(name, f"{value!r} holds an empty name or one twice")
        return names

    def topic_name(self, name: str) -> str | None:
        """The value as the name of a topic."""
        value = self.text(name)
        return value and checked_topic(name, value)

    def group_name(self, name: str) -> str | None:
        """The value as the name of a consumer group."""
        value = self.text(name)
        try:
            return value and check_group_name(value)
        except IllegalName as error:
            raise OptionIllegal(name, str(error)) from None

    def number(self, name: str, minimum: int = 1, maximum: int = NUMBER_MAX) -> int | None:
        """The value as a whole number within a range."""
        value = self.text(name)
        if value is None:
            return None
        wanted = f"{minimum} to {maximum}"
        if not (value.isascii() and value.isdigit()):
            raise OptionIllegal(name, f"{value!r} is no whole number of {wanted}")
        # Longer texts are out of range, and Python reads at most some thousand digits.
        if len(value) > len(str(NUMBER_MAX)) or not minimum <= int(value) <= maximum:
            raise OptionIllegal(name, f"{value} is out of range: {wanted}")
        return int(value)

    def truth(self, name: str, *, default: bool) -> bool:
        """The value as true or false."""
        value = (self.text(name) or str(default)).lower()
        if value not in {"true", "false"}:
            raise OptionIllegal(name, f"{value!r} is neither true nor false")
        return value == "true"

    def duration_ms(self, name: str) -> int | None:
        """The value as a time span with its unit, in milliseconds."""
        value = self.text(name)
        if value is None:
            return None
        match = _DURATION.fullmatch(value.lower())
        unit = match and next((u for u in (match[2], match[2][:-1]) if u in _UNIT_MS), None)
        if match is None or unit is None:
            raise OptionIllegal(name, f"{value!r} is no time span such as '500ms', '10s' or '15m'")
        return int(match[1]) * _UNIT_MS[unit]


def checked_topic(name: str, topic: str) -> str:
    """The name of a topic in an option.

    Raises:
        OptionIllegal: It cannot be one.
    """
    try:
        return check_topic_name(topic, system=True)
    except IllegalName as error:
        raise OptionIllegal(name, str(error)) from None


def timestamp_ms_of(name: str, text: str) -> int:
    """A time in an option, in milliseconds since 1970, rounded up.

    Args:
        name: The name of the option, for the error.
        text: Milliseconds since 1970, or ISO 8601 with an offset.

    Raises:
        OptionIllegal: It is neither.
    """
    if text.isascii() and text.isdigit():
        if len(text) > len(str(TIMESTAMP_MS_MAX)) or int(text) > TIMESTAMP_MS_MAX:
            raise OptionIllegal(
                name, f"{text} is no number of milliseconds since 1970 before the year 10000"
            )
        return int(text)
    return _iso_ms_of(name, text)


def _iso_ms_of(name: str, text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise OptionIllegal(
            name,
            f"{text!r} is neither milliseconds since 1970"
            " nor ISO 8601 with an offset, such as 2013-02-08T05:00:00+00:00",
        )
    # Upwards: a message of the same millisecond may have been stored before this moment.
    since_epoch_ms = -((_EPOCH - moment) // timedelta(milliseconds=1))
    if since_epoch_ms > TIMESTAMP_MS_MAX:
        raise OptionIllegal(name, f"{text!r} is not before the year 10000 in UTC")
    return max(0, since_epoch_ms)


def _check_name(key: str, use: Use) -> None:
    option = OPTION_BY_KEY.get(key)
    if option is None:
        raise UnknownOption(key, _suggestion(key, use))
    if option.later:
        raise FeatureNotAvailable(
            option.name,
            "is known, but not available yet; until then filter by 'tag' or 'filter',"
            " or in Spark by where()",
        )
    if use not in option.uses:
        uses = " or ".join(use.value for use in option.uses)
        raise OptionIllegal(
            option.name, f"is for a {uses}, and this is a {use.value}", is_of_other_use=True
        )


def check_known(given: Mapping[str, str]) -> None:
    """Check that each option is one of some use.

    Raises:
        UnknownOption: One is not.
    """
    for key in map(str.lower, given):
        if key not in OPTION_BY_KEY:
            raise UnknownOption(key, _suggestion(key, None))


def _suggestion(key: str, use: Use | None) -> str:
    usable = [o.name for o in OPTIONS if not o.later and (use is None or use in o.uses)]
    name = FOREIGN_NAMES.get(key) or _nearest(key, usable)
    if name is not None:
        return f"is not known; did you mean {name!r}?"
    who = "reads and writes know" if use is None else f"a {use.value} knows"
    return f"is not known; {who} {', '.join(sorted(usable, key=str.lower))}"


def _nearest(key: str, names: list[str]) -> str | None:
    near = get_close_matches(key, [name.lower() for name in names], n=1)
    return OPTION_BY_KEY[near[0]].name if near else None
