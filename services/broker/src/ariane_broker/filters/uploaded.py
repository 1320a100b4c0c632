"""Names of uploaded filters in subscriptions; FilterServers run these filters."""

from __future__ import annotations

import re
from typing import Final

from ariane_broker.errors.public_errors import filter_expression_invalid

_FILTER_VERSION: Final = re.compile(r"[A-Za-z0-9_-]{1,120}@[0-9a-f]{12,64}", re.ASCII)


def parse_filter_version(text: str) -> str:
    """Return the text of a subscription if it is "name@version".

    Raises:
        ServiceError: FILTER_EXPRESSION_INVALID.
    """
    if not _FILTER_VERSION.fullmatch(text):
        raise filter_expression_invalid(
            text, 0, 'an uploaded filter is "name@version", with 12 to 64 hex digits of its version'
        )
    return text
