"""Questions of commands, put to a name server that refuses some."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.protobuf.any_pb2 import Any
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from ariane.namesrv.v1.maintenance_service_pb2 import ListKeyValuesResponse
from ariane.namesrv.v1.maintenance_service_pb2_grpc import (
    MaintenanceServiceServicer,
    add_MaintenanceServiceServicer_to_server,
)
from ariane.namesrv.v1.route_service_pb2_grpc import (
    RouteServiceServicer,
    RouteServiceStub,
    add_RouteServiceServicer_to_server,
)
from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus


class Closed(RouteServiceServicer, MaintenanceServiceServicer):
    """Tells of the brokers that another one knows, and of no topic."""

    asked = ""

    def __init__(self, other):
        self.other = RouteServiceStub(other)

    def ListBrokers(self, request, context):  # noqa: N802 - the contract's name.
        return self.other.ListBrokers(request)

    def ListKeyValues(self, request, context):  # noqa: N802 - the contract's name.
        return ListKeyValuesResponse()

    def GetRoute(self, request, context):  # noqa: N802 - the contract's name.
        self.asked = request.topic
        detail = Any()
        detail.Pack(ErrorInfo(domain="ariane.mq", reason="ACCESS_DENIED"))
        packed = Status(code=7, details=[detail]).SerializeToString()
        context.set_trailing_metadata((("grpc-status-details-bin", packed),))
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "GET of that topic is not allowed")


@pytest.fixture
def closed(cluster):
    server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
    with grpc.insecure_channel(cluster.name_servers.split(",")[0]) as other:
        servicer = Closed(other)
        add_RouteServiceServicer_to_server(servicer, server)
        add_MaintenanceServiceServicer_to_server(servicer, server)
        servicer.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        yield servicer
        server.stop(None).wait()


@pytest.mark.parametrize("words", [("group", "list", "--topic"), ("topic", "producers")])
def test_who_may_not_see_the_topic_has_the_list(words, closed, capfd):
    status = main([*words, "unseen", "--name-servers", closed.address, "-o", "json"])

    assert closed.asked == "unseen"
    out, err = capfd.readouterr()
    assert (status, out.strip(), err) == (ExitStatus.DONE, "[]", "")
