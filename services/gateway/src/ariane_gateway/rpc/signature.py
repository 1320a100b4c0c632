"""Signatures of calls, as RocketMQ's clients make them.

::

    x-mq-date-time: 20261129T143000Z
    authorization: MQv2-HMAC-SHA1 Credential=<access key>, SignedHeaders=x-mq-date-time,
        Signature=<HMAC-SHA1 of that date with the secret key, in hex of either case>

A signature covers nothing but the date, and not even what is called: who overhears one may call
whatever its owner may, until the date is too old. Clients write the date in different forms; most
write their local time and call it UTC, so that it may be 14 hours off and still be meant well.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from ariane_gateway.access_keys import AccessKey

DATE: Final = "x-mq-date-time"
AUTHORIZATION: Final = "authorization"

AGE_MAX: Final = timedelta(hours=26)
"""How far a date may be from the present: a day's half, and the farthest local time."""

_SIGNED: Final = re.compile(
    r"MQv2-HMAC-SHA1 +Credential=([^,\s]*), *SignedHeaders=x-mq-date-time, *"
    r"Signature=([0-9a-fA-F]+)"
)
_COMPACT: Final = "%Y%m%dT%H%M%SZ"


class Signer(NamedTuple):
    """Who has signed."""

    access_key: str
    """With which key."""
    user: str
    """Who that is."""
    by_address: bool = False
    """Whether brokers judge the user by the address that it calls from."""


class SignatureRefused(Exception):
    """A call that is not signed as it should be; the text says why."""


def signer_of(
    headers: Mapping[str, str], find: Callable[[str], AccessKey | None], now: datetime
) -> Signer:
    """The access key that a call is signed with, and its user.

    Args:
        headers: The call's headers.
        find: Returns the key of a name; None if it does not hold.
        now: The present.

    Raises:
        SignatureRefused: It is not signed, by a key that is not known, wrongly, or long ago.
    """
    header = headers.get(AUTHORIZATION, "")
    if not header:
        raise SignatureRefused("the call is not signed: the client has no credentials")
    signed = _SIGNED.fullmatch(header)
    if signed is None:
        raise SignatureRefused("the header authorization is none of MQv2-HMAC-SHA1")
    # What is behind a slash names a service and a region, which nobody looks at.
    access_key = signed[1].partition("/")[0]
    key = find(access_key)
    secret = "" if key is None else key.secret
    date = headers.get(DATE, "")
    wanted = hmac.digest(secret.encode(), date.encode(), "sha1")
    # Compared in any case: how long it takes tells nobody which keys there are.
    fits = hmac.compare_digest(wanted.hex(), signed[2].lower())
    if key is None or not (secret and fits):
        raise SignatureRefused(
            f"access key {access_key[:64]!r} is not known, or has another secret"
        )
    if abs(now - _moment(date)) > AGE_MAX:
        raise SignatureRefused(
            f"the call was signed at {date!r:.40}, more than 26 hours from now; set the clock"
        )
    return Signer(access_key, key.user, key.by_address)


@lru_cache(maxsize=256)
def _moment(date: str) -> datetime:
    """The moment that a client means, or one up to 14 hours off.

    All calls of a second have the same one, and reading it takes longer than to check what is
    signed.
    """
    try:
        return datetime.strptime(date, _COMPACT).replace(tzinfo=UTC)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(date)
    except ValueError:
        raise SignatureRefused(f"the header {DATE} is no date: {date!r:.40}") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
