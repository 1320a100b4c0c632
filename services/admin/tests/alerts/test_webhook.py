"""The webhook against a real server that fails at first."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ariane_admin.alerts.webhook import TRIES_AGAIN, Webhook, WebhookFailed


@pytest.fixture
def server():
    """Takes events; answers with the statuses of a list first, then with 204."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taking.events.append(json.loads(body))
            self.send_response(taking.statuses.pop(0) if taking.statuses else 204)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    taking = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    taking.events, taking.statuses = [], []
    taking.url = f"http://127.0.0.1:{taking.server_port}/hook/s3cret"
    thread = threading.Thread(target=taking.serve_forever)
    thread.start()
    yield taking
    taking.shutdown()
    taking.server_close()
    thread.join()


async def test_an_event_is_posted_again_until_it_is_taken(server):
    server.statuses += [503, 500]
    await Webhook(server.url, backoff_s=0.01).tell({"event": "raised"})
    assert server.events == [{"event": "raised"}] * 3


async def test_a_failure_shows_nothing_of_the_url(server):
    server.statuses += [503] * (TRIES_AGAIN + 1)
    with pytest.raises(WebhookFailed) as failed:
        await Webhook(server.url, backoff_s=0.01).tell({})
    assert "s3cret" not in repr(failed.value)
    assert "503" in str(failed.value)
    assert len(server.events) == TRIES_AGAIN + 1
    server.statuses += [403]
    with pytest.raises(WebhookFailed, match="status 403"):
        await Webhook(server.url, backoff_s=0.01).tell({})
    with pytest.raises(WebhookFailed) as failed:
        await Webhook("http://127.0.0.1:1/s3cret", backoff_s=0.01).tell({})
    assert "s3cret" not in repr(failed.value)
    assert failed.value.__cause__ is None
