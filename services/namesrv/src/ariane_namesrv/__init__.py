"""Name server: routes and liveness of brokers."""

import ariane_servicekit  # noqa: F401 - it must come before whatever imports gRPC.

# isort: split
from ariane_namesrv.app import NamesrvApp
from ariane_namesrv.route_table import RouteTable
from ariane_namesrv.settings import NamesrvSettings

__all__ = ["NamesrvApp", "NamesrvSettings", "RouteTable"]
