"""The gateway as a process, before a cluster whose processes speak TLS."""

import ssl

import pytest

from apache.rocketmq.v2 import definition_pb2 as dp
from ariane_sdk import ClusterClient, Tls
from ariane_servicekit.running.processes import LocalCluster
from ariane_wire import secure_channel
from services.gateway.tests.test_signatures import sign


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
        # Calls of a user are made for him, and brokers know whose clients they are.
        keys = tmp_path / "keys"
        keys.write_text("orders:secret-1\n")
        gateway = cluster.gateways[0]
        await gateway.stop()
        gateway.arguments = (*gateway.arguments, "--access-keys", str(keys))
        await gateway.start()
        signed = sign(connect(gateway.address))
        await signed.send("orders", b"signed")
        _, (message,) = await signed.receive("orders", group, auto_renew=True)
        assert message.body == b"signed"
        assert (await signed.ack("orders", group, message)).status.code == dp.OK
        half = await signed.send("orders", b"half", dp.TRANSACTION)
        assert half.transaction_id
    assert cluster.gateways[0].exit_status == 0
