"""All methods of the contract, and which of them a service has."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Final

from google.protobuf.descriptor import FileDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc import StatusCode, aio

import ariane

_ANSWER_S: Final = 60.0
"""How long a method may take for an empty request."""

_NO_ANSWERS: Final = {StatusCode.INTERNAL, StatusCode.UNKNOWN, StatusCode.DEADLINE_EXCEEDED}
"""Codes of calls that were begun and came to nothing."""


def contract_services() -> Iterator[ServiceDescriptor]:
    """Yield every service of the contract, whoever serves it, by walking the generated package."""
    for module in pkgutil.walk_packages(ariane.__path__, "ariane."):
        if module.name.endswith("_pb2"):
            file: FileDescriptor = importlib.import_module(module.name).DESCRIPTOR
            yield from file.services_by_name.values()


async def unimplemented_methods(channel: aio.Channel, package: str) -> set[str]:
    """Call every method of a package with an empty request; return those that are not there.

    Most calls are refused because something must be set, and that is an answer. Only a method that
    no servicer has, or that a servicer refuses as unavailable, ends with UNIMPLEMENTED.

    Args:
        channel: To a running service. What an empty request does to it is done.
        package: Of the contract, such as ``ariane.broker.v1``.

    Raises:
        grpc.aio.AioRpcError: A call was answered with a fault of the service, or not in time.
    """
    methods = [
        method
        for service in contract_services()
        if service.file.package == package
        for method in service.methods
    ]
    served = [await _is_implemented(channel, method) for method in methods]
    return {
        f"{method.containing_service.name}.{method.name}"
        for method, there in zip(methods, served, strict=True)
        if not there
    }


async def _is_implemented(channel: aio.Channel, method: MethodDescriptor) -> bool:
    shape = "_".join(
        "stream" if streams else "unary"
        for streams in (method.client_streaming, method.server_streaming)
    )
    request = GetMessageClass(method.input_type)()
    call = getattr(channel, shape)(
        f"/{method.containing_service.full_name}/{method.name}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )(iter([request]) if method.client_streaming else request, timeout=_ANSWER_S)
    try:
        await (call.read() if method.server_streaming else call)
    except aio.AioRpcError as error:
        if error.code() in _NO_ANSWERS:
            raise
        return error.code() is not StatusCode.UNIMPLEMENTED
    finally:
        call.cancel()
    return True
