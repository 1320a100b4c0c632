"""The parts of a running client: connections, name servers, routes, simple calls; and its id."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import cache
from random import Random

from ariane_sdk.client.broker_calls import BrokerCalls
from ariane_sdk.net.connections import Connections
from ariane_sdk.release import __version__
from ariane_sdk.routing.failover import Failover
from ariane_sdk.routing.name_servers import NameServers
from ariane_sdk.routing.routes import Routes
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.fork import process_id
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
    return f"ariane-python/{__version__}"


def member_client_id(random: Random, group: str, member_name: str) -> str:
    """The id of a consumer: by its name in the group, if it has one."""
    return f"{member_name}@{group}" if member_name else new_client_id(random)


def new_incarnation(random: Random) -> str:
    """What distinguishes a client from an earlier one of the same id, which it replaces."""
    return f"{random.getrandbits(96):024x}"


def new_client_id(random: Random) -> str:
    """An id from host, process and a random part, so that no two living clients share one."""
    host = socket.gethostname().partition(".")[0] or "localhost"
    return f"{host}@{process_id()}@{random.getrandbits(48):012x}"
