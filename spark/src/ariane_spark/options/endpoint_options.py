"""Options that name endpoints, which reading and writing share."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from ariane_spark.errors import OptionIllegal
from ariane_spark.options.given_options import GivenOptions
from ariane_wire import is_source

PORT_MAX: Final = 65_535


def endpoints_of(options: GivenOptions) -> str:
    """The name servers, ``host:port`` or sources of these, separated by commas.

    Raises:
        OptionIllegal: They are missing or malformed.
    """
    hint = "name the name servers, such as '127.0.0.1:9876'"
    endpoints = options.required_text("endpoints", hint)
    for endpoint in endpoints.split(","):
        if is_source(endpoint.strip()):
            continue
        host, colon, port = endpoint.strip().rpartition(":")
        is_port = port.isascii() and port.isdigit() and 0 < int(port[:6]) <= PORT_MAX
        if not (host and colon and is_port) or "/" in host:
            raise OptionIllegal(
                "endpoints", f"{endpoint!r} is not of the form host:port, dns:host:port, file:path"
            )
    return ",".join(endpoint.strip() for endpoint in endpoints.split(","))


def otlp_endpoint_of(options: GivenOptions) -> str:
    """The collector that gets spans; empty without one.

    Raises:
        OptionIllegal: It is malformed, or the extra is not installed.
    """
    endpoint = options.text("otlpEndpoint") or ""
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise OptionIllegal("otlpEndpoint", f"{endpoint!r}: http://host:port is expected")
    if endpoint and find_spec("opentelemetry.exporter") is None:
        raise OptionIllegal("otlpEndpoint", "needs pip install 'ariane-spark[otlp]'")
    return endpoint
