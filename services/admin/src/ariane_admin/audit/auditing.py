"""Wraps every changing method of a service: a record before it begins, and one after its end.

The contract defines the changing methods: their access rule is create, update, delete or publish.
So servicers need no code for the trail, and cannot leave it out. A change whose begin cannot be
recorded is not made.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from secrets import token_hex
from typing import Any, Final, Protocol, runtime_checkable

from google.protobuf.json_format import MessageToDict, SerializeToJsonError
from google.protobuf.message import Message
from grpc import aio

from ariane.admin.v1.audit_service_pb2 import (
    AUDIT_OUTCOME_DONE,
    AUDIT_OUTCOME_FAILED,
    AUDIT_OUTCOME_PARTLY,
    AUDIT_OUTCOME_UNKNOWN,
)
from ariane.admin.v1.message_service_pb2 import ConsumeMessageResponse
from ariane.broker.v1.client_question_pb2 import CONSUME_OUTCOME_CONSUMED, ConsumeOutcome
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_admin.audit.caller import caller_of
from ariane_admin.audit.trail import JSON_BYTES_MAX, AuditedRequest, AuditTrail, Ended, Written
from ariane_servicekit import (
    ErrorTranslator,
    RpcService,
    ServiceError,
    current_call,
    field_invalid,
    get_logger,
)
from ariane_servicekit.database import Database
from ariane_servicekit.observability.passwords import without_passwords
from ariane_servicekit.security.rules.method_rules import changes

_SHORTFALLS: Final = (
    "name_server_failures",
    "unnotified_broker_names",
    "failures",
    "silent_brokers",
)
"""Fields of answers with the processes that did not do their part."""

_CAUSE_LENGTH_MAX: Final = 1000
"""The most characters of the error of a consumer."""

_Context = aio.ServicerContext[Any, Any]
_Behavior = Callable[[Any, _Context], Awaitable[Message]]

_log = get_logger(__name__)

_LEFT_OUT: Final = frozenset({"body", "module", "secret"})
"""Fields that the trail leaves out: the data of applications, their code, and secrets."""

_NAMES: Final = (
    *(
        "sink_name",
        "target_consumer_group",
        "consumer_group",
        "client_id",
        "topic",
        "broker_name",
        "transaction_id",
    ),
    *("recall_handle", "filter", "name", "cluster_name", "user", "policy"),
)
"""Fields that name the resource of a request, in order of preference."""


@runtime_checkable
class KnowsBefore(Protocol):
    """A servicer that can return a resource before it is changed."""

    async def before(self, method: str, request: Any) -> Message | None:
        """The present resource of a request.

        Args:
            method: The method's name, such as "UpdateTopic".
            request: Its request.

        Returns:
            The resource; None if it does not exist.
        """
        ...


class Auditing:
    """Wraps services so that the trail records their changes.

    Args:
        trail: The trail.
        database: The database, whose threads write the records.
        translator: Names the reasons of failures as callers see them.
        console_pass: The secret with which the console's word on the address counts.
    """

    def __init__(
        self,
        trail: AuditTrail,
        database: Database,
        translator: ErrorTranslator,
        console_pass: str,
    ) -> None:
        self._trail = trail
        self._database = database
        self._translator = translator
        self._console_pass = console_pass

    def audited(self, service: RpcService) -> RpcService:
        """The service with its changing methods wrapped."""
        changing = {
            method.name: method.full_name
            for method in service.descriptor.methods
            if changes(method)
        }
        behaviors = {
            name: self._around(service.servicer, name, _slashed(full_name))
            for name, full_name in changing.items()
        }
        servicer = _Audited(service.servicer, behaviors)
        return replace(service, servicer=servicer)

    def _around(self, servicer: object, name: str, method: str) -> _Behavior:
        behavior: _Behavior = getattr(servicer, name)

        async def run(request: Message, context: _Context) -> Message:
            if getattr(request, "validate_only", False):
                return await behavior(request, context)
            begun = await self._begin(servicer, name, method, request)
            try:
                answer = await behavior(request, context)
            except BaseException as error:
                # Even if the caller has gone or admin stops: every begin gets its end.
                await asyncio.shield(self._end(begun, self._failure(error)))
                raise
            await asyncio.shield(self._end(begun, _success(answer)))
            return answer

        return run

    async def _begin(self, servicer: object, name: str, method: str, request: Message) -> Written:
        """Write that a change begins.

        Raises:
            ServiceError: FIELD_INVALID: the request has a value that has no text, such as a time
                beyond the year 9999.
        """
        try:
            request_json = trail_json(request)
        except SerializeToJsonError as error:
            raise field_invalid("request", f"cannot be told to the audit trail: {error}") from None
        caller = caller_of(current_call(), self._console_pass)
        before: Message | None = None
        if isinstance(servicer, KnowsBefore):
            try:
                before = await servicer.before(name, request)
            except Exception as error:  # noqa: BLE001 - the change itself fails in the same way
                _log.info("audit_before_unknown", method=method, error=str(error))
        asked = AuditedRequest(
            entry_id=token_hex(16),
            user=caller.user,
            claimed_user=caller.claimed_user,
            source_address=caller.source_address,
            method=method,
            resource_name=resource_name(request),
            request_json=request_json,
            before_json="" if before is None else trail_json(before),
        )
        return await self._database.call(self._trail.begin, asked)

    async def _end(self, begun: Written, ended: Ended) -> None:
        try:
            written = await self._database.call(self._trail.end, begun, ended)
        except Exception as error:
            _log.exception("audit_end_unwritten", entry_id=begun.record.entry_id)
            raise ServiceError(
                ErrorReason.ERROR_REASON_INTERNAL_FAULT,
                f"change {begun.record.entry_id} ended, and the audit trail could not be told how",
                {"entry_id": begun.record.entry_id},
            ) from error
        # The log keeps the hash outside the database: a rewritten trail does not match it.
        _log.info(
            "changed",
            entry_id=written.record.entry_id,
            method=written.record.method,
            resource=written.record.resource_name,
            outcome=written.record.outcome,
            sequence=written.record.sequence,
            sha256=written.sha256.hex(),
        )

    def _failure(self, error: BaseException) -> Ended:
        if not isinstance(error, Exception):
            return Ended(AUDIT_OUTCOME_UNKNOWN, "", "CANCELLED", "the call was cancelled")
        public = self._translator.service_error(error)
        unknown = public.row.outcome_unknown
        return Ended(
            AUDIT_OUTCOME_UNKNOWN if unknown else AUDIT_OUTCOME_FAILED,
            "",
            public.row.name,
            public.message,
        )


class _Audited:
    """A servicer with some methods replaced."""

    def __init__(self, servicer: object, behaviors: Mapping[str, _Behavior]) -> None:
        self._servicer = servicer
        self._behaviors = behaviors

    def __getattr__(self, name: str) -> Any:
        found = self._behaviors.get(name)
        return getattr(self._servicer, name) if found is None else found


def _success(answer: Message) -> Ended:
    if isinstance(answer, ConsumeMessageResponse):
        return _consumed(answer)
    parts = [each for name in ("outcomes", "changes") for each in getattr(answer, name, ())]
    partly = any(map(_failed, parts)) or any(getattr(answer, name, ()) for name in _SHORTFALLS)
    return Ended(AUDIT_OUTCOME_PARTLY if partly else AUDIT_OUTCOME_DONE, trail_json(answer))


def _consumed(answer: ConsumeMessageResponse) -> Ended:
    """The end of a request to consume a message: the consumer's result is in the answer."""
    outcome = answer.answer
    if outcome.outcome == CONSUME_OUTCOME_CONSUMED:
        return Ended(AUDIT_OUTCOME_DONE, trail_json(answer))
    reason = ConsumeOutcome.Name(outcome.outcome).removeprefix("CONSUME_OUTCOME_")
    cause = outcome.cause[:_CAUSE_LENGTH_MAX]
    return Ended(AUDIT_OUTCOME_FAILED, trail_json(answer), f"CONSUME_{reason}", cause)


def _failed(part: Any) -> bool:
    return bool(getattr(part, "failure", "")) or (hasattr(part, "error") and part.HasField("error"))


def _slashed(full_name: str) -> str:
    """The name of a method as in calls, "a.v1.TopicService/CreateTopic", from its full name."""
    service, _, method = full_name.rpartition(".")
    return f"{service}/{method}"


def trail_json(message: Message) -> str:
    """A message as JSON, cut if it is too long."""
    text = _text(_without_bodies(MessageToDict(message, preserving_proto_field_name=True)))
    size = len(text.encode())
    if size <= JSON_BYTES_MAX:
        return text
    # Escaping the text once more may double its size.
    begin = text.encode()[: JSON_BYTES_MAX // 3].decode(errors="ignore")
    return _text({"cut": True, "bytes": size, "begin": begin})


def resource_name(request: Message) -> str:
    """The name of the resource of a request; empty without one."""
    for name in _NAMES:
        value = getattr(request, name, "")
        if isinstance(value, str) and value:
            return value
        # A creation has the resource in a field named after its kind.
        if isinstance(value, Message) and (inner := resource_name(value)):
            return inner
    for kind in ("group", "quota"):
        kept = getattr(request, kind, None)
        if isinstance(kept, Message):
            return resource_name(kept)
    return ""


def _without_bodies(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "left out" if key in _LEFT_OUT else _without_bodies(inner)
            for key, inner in value.items()
        }
    if isinstance(value, str):
        return without_passwords(value)
    return list(map(_without_bodies, value)) if isinstance(value, list) else value


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
