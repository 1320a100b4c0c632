"""What a client says of itself on each connection, beside its certificate and credentials."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version


def user_agent_of(client_id: str = "", producer_group: str = "") -> str:
    """The words of the gRPC user agent before those of the transport.

    Brokers read them to tell operators who sends: ``ariane-python/0.1.0 client/ID
    producer-group/GROUP``, without what is empty.
    """
    client = f" client/{client_id}" if client_id else ""
    group = f" producer-group/{producer_group}" if producer_group else ""
    return f"{_program()}{client}{group}"


@cache
def _program() -> str:
    return f"ariane-python/{version('ariane-sdk')}"
