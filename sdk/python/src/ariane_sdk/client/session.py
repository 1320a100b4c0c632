"""The parts of every running client: connections, name servers, routes, simple calls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from random import Random

from ariane_sdk.client.broker_calls import BrokerCalls
from ariane_sdk.net.connections import Connections
from ariane_sdk.routing.failover import Failover
from ariane_sdk.routing.name_servers import NameServers
from ariane_sdk.routing.routes import Routes
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.security import PLAIN, Access


class Session:
    """The running parts of one client; lives on one event loop."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        timeout_s: float,
        clock: Clock,
        random: Random,
        access: Access = PLAIN,
        client_id: str = "",
        producer_group: str = "",
    ) -> None:
        user_agent = _user_agent(client_id, producer_group)
        self.connections = Connections(random, access, user_agent)
        """Channels by address."""
        self.name_servers = NameServers(
            addresses, self.connections, random=random, timeout_s=timeout_s
        )
        """Calls to any of them."""
        self.routes = Routes(self.name_servers, clock, random)
        """Routes by topic."""
        self.calls = BrokerCalls(self.connections, timeout_s=timeout_s)
        """Simple calls to brokers."""
        self.failover = Failover(self.routes, clock)
        """Makes calls again while a broker changes its primary."""

    async def close(self) -> None:
        """Disconnect."""
        await self.routes.close()
        await self.connections.close()


def _user_agent(client_id: str = "", producer_group: str = "") -> str:
    """The words of the gRPC user agent before those of the transport.

    Brokers read them for operators who ask who sends: ``ariane-python/0.1.0 client/ID
    producer-group/GROUP``, without what is empty.
    """
    client = f" client/{client_id}" if client_id else ""
    group = f" producer-group/{producer_group}" if producer_group else ""
    return f"{_program()}{client}{group}"


@cache
def _program() -> str:
    return f"ariane-python/{version('ariane-sdk')}"
