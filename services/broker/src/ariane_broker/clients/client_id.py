"""The rules of client ids."""

from __future__ import annotations

from typing import Final

from ariane_record.control_characters import holds_control_character
from ariane_servicekit.errors import field_invalid

CLIENT_ID_LENGTH_MAX: Final = 255


def check_client_id(client_id: str, field: str) -> None:
    """Refuse a client id that could not be displayed or logged.

    Args:
        client_id: The client's id; empty if it is optional.
        field: The field's name, for the error.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if len(client_id) > CLIENT_ID_LENGTH_MAX or holds_control_character(client_id):
        rule = f"must be 1 to {CLIENT_ID_LENGTH_MAX} characters, none of control"
        raise field_invalid(field, rule)
