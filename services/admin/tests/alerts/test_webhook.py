"""The webhook against a real server that fails at first."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ariane_admin.alerts import webhook
from ariane_admin.alerts.webhook import TRIES_AGAIN, Webhook, WebhookFailed


@pytest.fixture
def server():
    """Takes events; answers with the statuses of a list first, then with 204."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taking.events.append(json.loads(body))
            taking.asked.set()
            taking.open.wait()
            self.send_response(taking.statuses.pop(0) if taking.statuses else 204)
            self.send_header("Content-Length", "0")
            self.send_header("Retry-After", "3600")
            self.end_headers()

        def log_message(self, *_):
            pass

    taking = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    taking.events, taking.statuses = [], []
    taking.open, taking.asked = threading.Event(), threading.Event()
    taking.open.set()
    taking.url = f"http://127.0.0.1:{taking.server_port}/hook/s3cret"
    thread = threading.Thread(target=taking.serve_forever)
    thread.start()
    yield taking
    taking.open.set()
    taking.shutdown()
    taking.server_close()
    thread.join()


async def test_an_event_is_posted_again_until_it_is_taken(server):
    server.statuses += [503]
    await Webhook(server.url, backoff_s=0.01).send({"event": "raised"})
    assert server.events == [{"event": "raised"}] * 2


def test_a_webhook_that_does_not_answer_outlives_no_stop(server, monkeypatch):
    monkeypatch.setattr(webhook, "CALL_S_MAX", 3600.0)
    server.open.clear()

    async def tell_and_stop():
        sending = asyncio.create_task(Webhook(server.url).send({"event": "raised"}))
        await asyncio.to_thread(server.asked.wait)
        sending.cancel()
        await asyncio.wait([sending])

    asyncio.run(tell_and_stop())
    assert server.events
    assert not server.open.is_set()


async def test_a_failure_shows_nothing_of_the_url(server, caplog):
    caplog.set_level("DEBUG")
    server.statuses += [503] * (TRIES_AGAIN + 1)
    with pytest.raises(WebhookFailed) as failed:
        await Webhook(server.url, backoff_s=0.01).send({})
    assert "s3cret" not in repr(failed.value)
    assert "503" in str(failed.value)
    assert len(server.events) == TRIES_AGAIN + 1
    server.statuses += [403]
    with pytest.raises(WebhookFailed, match="status 403"):
        await Webhook(server.url, backoff_s=0.01).send({})
    with pytest.raises(WebhookFailed) as failed:
        await Webhook("http://127.0.0.1:1/s3cret", backoff_s=0.01).send({})
    assert "s3cret" not in repr(failed.value)
    assert failed.value.__cause__ is None
    assert "s3cret" not in caplog.text
