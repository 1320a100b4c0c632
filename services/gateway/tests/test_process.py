"""The gateway as a process, before a cluster whose processes speak TLS."""

import ssl

import pytest

from apache.rocketmq.v2 import definition_pb2 as dp
from ariane_sdk import ClusterClient, Tls
from ariane_servicekit.running.processes import LocalCluster
from ariane_wire import secure_channel


@pytest.mark.slow
async def test_clients_without_certificates_reach_a_cluster_that_asks_for_them(
    tmp_path, connect, group
):
    async with LocalCluster(tmp_path, gateways=1, tls=True) as cluster:
        tls = Tls(**cluster.certificates.user("anna"))
        async with ClusterClient(cluster.name_servers, tls=tls) as operator:
            await operator.create_topic("orders", queue_count=1)
        address = cluster.gateways[0].address
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        plain, secure = connect(address), connect(address, channel=secure_channel(address, context))
        await plain.send("orders", b"plain")
        await secure.send("orders", b"secure")
        _, messages = await secure.receive("orders", group)
        assert sorted(each.body for each in messages) == [b"plain", b"secure"]
        assert (await plain.ack("orders", group, *messages)).status.code == dp.OK
    assert cluster.gateways[0].exit_status == 0
