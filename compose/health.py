"""Whether a service serves: exit status 0 if it does. Takes its address, host:port."""

import sys

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

with grpc.insecure_channel(sys.argv[1]) as channel:
    status = HealthStub(channel).Check(HealthCheckRequest(), timeout=5).status
sys.exit(status != HealthCheckResponse.SERVING)
