"""Who calls: what the headers of a call say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

from grpc import aio

from apache.rocketmq.v2.definition_pb2 import Code, Resource
from ariane_gateway.refusals import Refused
from ariane_gateway.rpc.statuses import Illegal, status_of

RequestT = TypeVar("RequestT")
AnswerT = TypeVar("AnswerT")

CLIENT_ID: Final = "x-mq-client-id"
CLIENT_ID_LENGTH_MAX: Final = 255
CALL_S_DEFAULT: Final = 60.0
"""How long a caller waits that names no deadline."""


class Caller(NamedTuple):
    """The client of a call.

    Attributes:
        client_id: Its id.
        language: What it is written in, as it says.
        version: The version of its library.
        address: Where it calls from.
        time_s: How long it waits for the answer, in seconds.
    """

    client_id: str
    language: str
    version: str
    address: str
    time_s: float

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What the client table knows it by: id, language, version, address."""
        return self[:4]


def caller_of(context: aio.ServicerContext[Any, Any]) -> Caller:
    """The client of a call.

    Raises:
        Illegal: CLIENT_ID_REQUIRED.
    """
    headers = dict(context.invocation_metadata() or ())
    client_id = _text(headers.get(CLIENT_ID, ""))
    if not client_id:
        raise Illegal(Code.CLIENT_ID_REQUIRED, f"the header {CLIENT_ID} is missing")
    if len(client_id) > CLIENT_ID_LENGTH_MAX or not client_id.isprintable():
        raise Illegal(
            Code.CLIENT_ID_REQUIRED,
            f"{CLIENT_ID}: at most {CLIENT_ID_LENGTH_MAX} printable characters",
        )
    # None if the caller set no deadline, although the stub's type has no None.
    remaining_s: float | None = context.time_remaining()
    return Caller(
        client_id,
        _text(headers.get("x-mq-language", "")),
        _text(headers.get("x-mq-client-version", "")),
        context.peer(),
        CALL_S_DEFAULT if remaining_s is None else remaining_s,
    )


async def answered(
    work: Callable[[RequestT, Caller], Awaitable[AnswerT]],
    request: RequestT,
    context: aio.ServicerContext[Any, Any],
    make: Callable[..., AnswerT],
) -> AnswerT:
    """The answer of a call; one that only has a status when the call is refused."""
    try:
        return await work(request, caller_of(context))
    except (Refused, Illegal) as error:
        return make(status=status_of(error))


def topic_of(resource: Resource) -> str:
    """The topic that a resource names.

    Raises:
        Illegal: ILLEGAL_TOPIC.
    """
    if not resource.name.strip():
        raise Illegal(Code.ILLEGAL_TOPIC, "the topic is missing")
    return _in_namespace(resource)


def group_of(resource: Resource) -> str:
    """The consumer group that a resource names.

    Raises:
        Illegal: ILLEGAL_CONSUMER_GROUP.
    """
    if not resource.name.strip():
        raise Illegal(Code.ILLEGAL_CONSUMER_GROUP, "the consumer group is missing")
    return _in_namespace(resource)


def _in_namespace(resource: Resource) -> str:
    """The name within its namespace, as RocketMQ writes it."""
    if resource.resource_namespace:
        return f"{resource.resource_namespace}%{resource.name}"
    return resource.name


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("ascii", "replace")
