"""The broker: stores and serves messages."""

import ariane_servicekit  # noqa: F401 - it must come before whatever imports gRPC.
