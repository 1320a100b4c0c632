"""Which producers a gateway keeps for its users and their addresses."""

from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from ariane_gateway.brokers.acting import USER
from ariane_gateway.sending import sending as sending_module
from ariane_gateway.sending.sending import Sending
from ariane_sdk import ProducerSettings
from ariane_sdk.message import RelayedMessage


class Kept:
    """Stands for a producer."""

    made = closed = ()

    def __init__(self, *_, **__):
        self.user = USER.get()
        self.made.append(self.user)

    async def start(self):
        pass

    async def send(self, message, timeout_s):
        queue = SimpleNamespace(broker_name=f"by {self.user}")
        return SimpleNamespace(message_queue=queue, queue_offset=0, recall_handle="")

    async def close(self):
        self.closed.append(self.user)


@pytest.fixture
def kept(monkeypatch):
    monkeypatch.setattr(Kept, "made", [])
    monkeypatch.setattr(Kept, "closed", [])
    monkeypatch.setattr(sending_module, "Producer", Kept)
    monkeypatch.setattr(sending_module, "PRODUCERS_MAX", 2)
    return Kept


async def test_the_producer_that_was_used_least_lately_goes_first(kept):
    cluster = SimpleNamespace(route=AsyncMock())
    sending = Sending(cluster, ["127.0.0.1:1"], ProducerSettings(), tls=False)
    for user in ("", "anna;10.0.0.1", "", "anna;10.0.0.2", "", "anna;10.0.0.1"):
        USER.set(user)
        sent = await sending.send(RelayedMessage("orders", b"a"), 1.0)
        assert sent.broker_name == f"by {user}"
    assert kept.made == ["", "anna;10.0.0.1", "anna;10.0.0.2", "anna;10.0.0.1"]
    await sending.close()
    assert sorted(kept.closed) == sorted(kept.made)
