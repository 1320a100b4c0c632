"""TLS and plain text at one port: with a pair of its own, or with the certificate that is given."""

import asyncio
import ssl
from datetime import datetime
from importlib.metadata import version

import pytest

from apache.rocketmq.v2 import definition_pb2 as dp
from ariane_admin.asking.cluster_doors import ClusterDoors
from ariane_admin.doctor.cluster_facts import gather_facts
from ariane_gateway.settings import GatewaySettings
from ariane_servicekit import Address, StartRefused
from ariane_servicekit.security.tls.authority import new_authority, sign_leaf
from ariane_wire import secure_channel


async def shown_by(address, authorities=None):
    """The certificate that a client is shown; without authorities it looks at nothing."""
    context = ssl.create_default_context(cafile=authorities)
    if authorities is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    host = Address.parse(address)
    _, writer = await asyncio.open_connection(host.host, host.port, ssl=context)
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return certificate


@pytest.fixture
def files(tmp_path):
    """A certificate and its key, and the authority that signed it."""
    authority = new_authority("somebody")

    def write(hosts=("127.0.0.1",)):
        pair = sign_leaf(authority, "ariane://a/gateway/b", hosts)
        (tmp_path / "front.pem").write_bytes(pair.certificate_pem)
        (tmp_path / "front.key").write_bytes(pair.key_pem)
        (tmp_path / "authority.pem").write_bytes(authority.certificate_pem)
        return tmp_path / "front.pem", tmp_path / "front.key", tmp_path / "authority.pem"

    return write


async def test_a_client_that_looks_at_no_certificate_speaks_tls_where_others_speak_plain_text(
    start_gateway, connect, ariane_topic
):
    address, _ = await start_gateway()
    plain = connect(address)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    secure = connect(address, channel=secure_channel(address, context))
    for client in (plain, secure):
        sent = await client.send(ariane_topic, b"a teapot")
        assert sent.status.code == dp.OK
    assert await shown_by(address)


async def test_the_certificate_that_is_given_is_shown_and_read_again(start_gateway, files):
    certificate, key, authorities = files()
    address, _ = await start_gateway(front_certificate=certificate, front_key=key)
    first = await shown_by(address, authorities)
    files()
    second = await shown_by(address, authorities)
    assert first != second
    certificate.write_text("no certificate")
    assert await shown_by(address, authorities) == second


async def test_the_doctor_asks_gateways_by_way_of_brokers(start_gateway, files, ariane_cluster):
    certificate, key, _ = files()
    address, _ = await start_gateway(front_certificate=certificate, front_key=key)
    async with ClusterDoors(ariane_cluster.name_servers) as doors:
        while True:
            told = next(
                (each for each in await gateways(doors) if address in each.facts.values()), None
            )
            if told is not None:
                break
            await asyncio.sleep(0.05)
    assert (told.error, told.facts["stage"]) == ("", "serving")
    assert told.version == version("ariane-gateway")
    ends = datetime.fromisoformat(told.facts["front_certificate_ends"])
    assert ends > datetime.fromisoformat(told.facts["current_time"])


async def gateways(doors):
    return (await gather_facts(doors)).gateways


async def test_a_certificate_that_is_none_is_refused_at_the_start(start_gateway, files):
    certificate, key, _ = files()
    certificate.write_text("no certificate")
    with pytest.raises(StartRefused, match="front_certificate"):
        await start_gateway(front_certificate=certificate, front_key=key)
    with pytest.raises(ValueError, match="it needs front_key"):
        GatewaySettings(front_certificate=certificate)


async def test_without_a_pair_there_is_plain_text_alone(start_gateway, connect, ariane_topic):
    address, _ = await start_gateway(self_signed=False)
    assert (await connect(address).queues(ariane_topic)).status.code == dp.OK
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await asyncio.wait_for(shown_by(address), 5)
