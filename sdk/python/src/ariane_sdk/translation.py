"""For programs that call the services by themselves: messages of the contract as types of the SDK.

The command line and the Spark connector call brokers and name servers by stubs of their own.
With these functions their users get the same routes and the same errors.
"""

from ariane_sdk.net.status import error_from_rpc, error_from_status
from ariane_sdk.routing.route_wire import route_from_wire

__all__ = ["error_from_rpc", "error_from_status", "route_from_wire"]
