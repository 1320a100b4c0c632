"""What a token of an OpenID provider has opened ends with it."""

import asyncio
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from grpc import StatusCode
from grpc.aio import AioRpcError
from jwt.algorithms import ECAlgorithm

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.common.v1 import login_service_pb2 as login_pb
from ariane.common.v1.login_service_pb2_grpc import LoginServiceStub

KEY = ec.generate_private_key(ec.SECP256R1())
ISSUER = "https://id.test"


class Keys(BaseHTTPRequestHandler):
    """The provider's keys."""

    def do_GET(self):
        jwk = {**ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "k"}
        content = json.dumps({"keys": [jwk]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def provider():
    server = HTTPServer(("127.0.0.1", 0), Keys)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/keys"
    server.shutdown()
    server.server_close()


async def log_in(channel, ends_s):
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": "ariane", "sub": "root", "nbf": now - 5, "exp": ends_s}
    token = jwt.encode(claims, KEY, "ES256", headers={"kid": "k"})
    await LoginServiceStub(channel).FinishLogin(login_pb.FinishLoginRequest(bearer_token=token))


@pytest.mark.slow
@pytest.mark.parametrize("renewed", [False, True])
async def test_a_stream_ends_with_the_token_unless_it_is_renewed(running, provider, renewed):
    openid = {"openid_issuer": ISSUER, "openid_audience": "ariane", "openid_keys_url": provider}
    async with running(access="closed", super_users=("root",), **openid) as broker:
        ends_s = int(time.time()) + 2
        await log_in(broker.channel, ends_s)
        stream = broker.clients.Attach()
        hello = client_pb.ClientHello(client_id="of-root")
        await stream.write(client_pb.AttachRequest(hello=hello))
        assert (await stream.read()).HasField("accepted")
        if renewed:
            ends_s += 2
            await log_in(broker.channel, ends_s)
        with pytest.raises(AioRpcError) as ended:
            await asyncio.wait_for(stream.read(), 30)
        assert ended.value.code() is StatusCode.UNAUTHENTICATED
        assert time.time() >= ends_s
        with pytest.raises(AioRpcError) as refused:
            await broker.clients.ListClients(client_pb.ListClientsRequest())
        assert refused.value.code() is StatusCode.UNAUTHENTICATED
