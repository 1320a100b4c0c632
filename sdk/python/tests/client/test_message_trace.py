"""Message traces of a client that ends while the broker that takes them does not answer."""

from types import SimpleNamespace

from ariane_sdk.client.message_trace import STEPS_PER_CALL_MAX, MessageTrace
from ariane_sdk.errors import DeadlinePassed
from ariane_sdk.runtime.clock import SystemClock


async def test_who_ends_calls_a_broker_that_hangs_once_and_tells_what_is_lost(caplog):
    calls = []

    class Connection:
        async def SendMessages(self, request, **options):  # noqa: N802 - as the stub has it.
            calls.append(options["timeout"])
            raise DeadlinePassed("no answer")

    async def get(_topic):
        return SimpleNamespace(primary_addresses={"a": "a:1"})

    session = SimpleNamespace(
        routes=SimpleNamespace(get=get),
        connections=SimpleNamespace(send=lambda _address: Connection()),
    )
    trace = MessageTrace(
        lambda: session, group="g", client_id="c", clock=SystemClock(), timeout_s=3.0
    )
    for number in range(2 * STEPS_PER_CALL_MAX + 1):
        trace.ended("orders", str(number), "commit")
    await trace.close()
    assert calls == [3.0]
    assert f"lost, of message traces: {2 * STEPS_PER_CALL_MAX + 1:,} steps" in caplog.text
