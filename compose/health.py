"""Whether a service serves: exit status 0 if it does.

Takes its address, host:port, and the name that the health service is asked for; none for all.
"""

import os
import sys
from pathlib import Path

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

AUTHORITY = Path(os.environ.get("ARIANE_HEALTH_AUTHORITY", "/run/ariane/members.pem"))
"""Of the processes of a closed cluster; without the file, the service speaks plain text."""

address, name = (*sys.argv[1:], "")[:2]
if AUTHORITY.exists():
    credentials = grpc.ssl_channel_credentials(AUTHORITY.read_bytes())
    channel = grpc.secure_channel(address, credentials)
else:
    channel = grpc.insecure_channel(address)
with channel:
    status = HealthStub(channel).Check(HealthCheckRequest(service=name), timeout=5).status
sys.exit(status != HealthCheckResponse.SERVING)
