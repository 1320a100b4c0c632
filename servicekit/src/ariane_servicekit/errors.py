"""Errors of the kit, and the one error that use cases raise to answer a caller.

::

    ServicekitError
    ├── ServiceError        a public error: leaves the process as google.rpc.Status
    ├── SettingsError       a setting is unknown or illegal; the process does not start
    ├── StartRefused        the process cannot start; one line has the reason
    ├── StopIncomplete      the process has stopped, and could not save all
    ├── FileDamaged         a state file and its previous generation cannot be read
    └── ProcessFailed       a child process died or did not become ready
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Final, ParamSpec

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.error_row import ErrorRow
from ariane_servicekit.error_table import ERROR_TABLE

MESSAGE_BYTES_MAX: Final = 960
"""Bytes of a public error's text. A client takes 8 KiB of trailers, and the text travels thrice: as
``grpc-message``, in the status and in BadRequest."""

VALUE_BYTES_MAX: Final = 480
"""Bytes of a value in the metadata of a public error."""

_Values = ParamSpec("_Values")


class ServicekitError(Exception):
    """All errors of the kit."""


class ServiceError(ServicekitError):
    """A public error: a row of the error table with a text and the values that the text names.

    Text beyond the size of a trailer is cut: it may repeat what the caller sent.
    """

    def __init__(
        self,
        reason: ErrorReason.ValueType,
        message: str,
        metadata: Mapping[str, object] = MappingProxyType({}),
        *,
        retry_after_ms: int | None = None,
        field: str = "",
    ) -> None:
        self.message = _cut(message, MESSAGE_BYTES_MAX)
        """One English sentence for the developer at the other end."""
        super().__init__(self.message)
        self.reason = reason
        """Why, a value of ``ariane.common.v1.ErrorReason``."""
        self.metadata = {
            name: _cut(str(value), VALUE_BYTES_MAX) for name, value in metadata.items()
        }
        """Every dynamic value of the message by name; becomes ``ErrorInfo.metadata``."""
        row = ERROR_TABLE[reason]
        self.retry_after_ms = row.retry_after_ms if retry_after_ms is None else retry_after_ms
        """The wait that RetryInfo asks for. None: as the table says."""
        self.field = field or self.metadata.get("field", "") or row.field
        """The request field that BadRequest names. Empty: as the table says."""

    @property
    def row(self) -> ErrorRow:
        """The row of the error table."""
        return ERROR_TABLE[self.reason]


def refusal(
    reason: ErrorReason.ValueType,
    *,
    field: str = "",
    retry_after_ms: int | None = None,
    without: Collection[str] = (),
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Callable[_Values, str]], Callable[_Values, ServiceError]]:
    """Make the function of a text return the error; its arguments are the metadata, by their names.

    None among them is empty text there.

    Args:
        reason: The error's reason.
        field: The request field that BadRequest names, perhaps with ``{position}`` for that
            argument. Empty: as the error table says.
        retry_after_ms: The wait that RetryInfo asks for. None: as the error table says.
        without: Arguments that only the text has.
        renamed: What the metadata call arguments that have another name there.
    """

    def of(text: Callable[_Values, str]) -> Callable[_Values, ServiceError]:
        parameters = signature(text).parameters
        defaults = {
            name: each.default for name, each in parameters.items() if each.default != each.empty
        }
        names = tuple(parameters)
        if unknown := {*without, *renamed} - {*names}:
            raise TypeError(f"{text.__qualname__} has no {', '.join(sorted(unknown))}")

        @wraps(text)
        def error(*args: _Values.args, **kwargs: _Values.kwargs) -> ServiceError:
            values = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
            metadata = {
                renamed.get(name, name): "" if value is None else value
                for name, value in values.items()
                if name not in without
            }
            return ServiceError(
                reason,
                text(*args, **kwargs),
                metadata,
                field=field.format_map(values),
                retry_after_ms=retry_after_ms,
            )

        return error

    return of


def field_invalid(field: str, rule: str, value: object = None) -> ServiceError:
    """Return the error for a request field that is missing, malformed or out of range.

    Args:
        field: Path of the field in the request, such as ``"table.queue_ids[2]"``.
        rule: The rule, to be read after the field's name: ``"must be at least 0"``.
        value: The value, if it is short and helps.
    """
    metadata: dict[str, object] = {"field": field}
    message = f"{field} {rule}"
    if value is not None:
        metadata["value"] = value
        message += f", not {value!r}" if rule.startswith("must be ") else f": {value!r}"
    return ServiceError(ErrorReason.ERROR_REASON_FIELD_INVALID, message, metadata)


@refusal(ErrorReason.ERROR_REASON_FEATURE_NOT_AVAILABLE)
def feature_not_available(feature: str) -> str:
    """Return the error for a function of the contract that this service lacks."""
    return f"{feature} is not available in this version"


def _cut(text: str, bytes_max: int) -> str:
    encoded = text.encode(errors="replace")
    if len(encoded) <= bytes_max:
        return text
    return encoded[: bytes_max - 3].decode(errors="ignore") + "..."


class SettingsError(ServicekitError):
    """A setting is unknown or illegal. The text is one line and names the setting's source."""


class StartRefused(ServicekitError):
    """The process cannot start: port taken, store locked, state damaged. The text is one line."""


class StopIncomplete(ServicekitError):
    """The process has stopped, and could not save all. The text is one line."""


class FileDamaged(ServicekitError):
    """A state file and its previous generation cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} and its previous generation are damaged ({reason}); "
            "restore one of them from a copy, or remove both to start empty"
        )
        self.path = path
        """The file."""


class ProcessFailed(ServicekitError):
    """A child process died or did not become ready; the text ends with its last log lines."""

    def __init__(self, name: str, message: str, exit_status: int | None) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        """The process."""
        self.exit_status = exit_status
        """The exit status. None: it still ran and was killed."""
