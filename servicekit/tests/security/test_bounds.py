"""What callers can make a process remember is bounded, whatever they send."""

from __future__ import annotations

import asyncio

from ariane.broker.v1.pull_service_pb2 import PullPosition, PullRecordsRequest, StreamPullsRequest
from ariane.common.v1 import access_pb2 as access
from ariane_servicekit.rpc.calls import Call
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.gate.long_calls import USES_MAX, LongCalls
from ariane_servicekit.security.rules.method_rules import method_rules
from ariane_servicekit.security.rules.use_ledger import (
    REFUSALS_MAX,
    Refusal,
    Use,
    UseLedger,
)
from ariane_servicekit.security.rules.use_ledger import (
    USES_MAX as KINDS_MAX,
)
from ariane_testkit.contract import contract_services

TOPIC = access.RESOURCE_TOPIC


def test_a_ledger_keeps_so_many_uses_and_refusals_and_short_names():
    ledger = UseLedger()
    for number in range(KINDS_MAX + 5):
        ledger.used(Use("anna", access.ACTION_GET, TOPIC, f"t{number}"), refused=True)
    ledger.used(Use("anna", access.ACTION_GET, TOPIC, "x" * (4 << 20)), refused=False)
    uses = ledger.uses()
    assert len(uses) == KINDS_MAX
    assert max(len(use.name) for use, _ in uses) == 255
    for number in range(REFUSALS_MAX + 5):
        refusal = Refusal(f"r{number}", 0, "m", "anna", "", None, "", None, let_through=False)
        ledger.refused(refusal)
    assert ledger.refusal("r0") is None
    assert ledger.refusal(f"r{REFUSALS_MAX + 4}") is not None
    assert ledger.refused_count == REFUSALS_MAX + 5


def test_who_asks_for_ever_new_names_takes_nothing_of_what_others_did():
    """Of a ledger in which what was seen last is all that counts, a stranger wipes the rest."""
    ledger = UseLedger()
    for number in range(400):
        ledger.used(Use("anna", access.ACTION_GET, TOPIC, f"t{number}"), refused=False)
        refusal = Refusal(f"a{number}", 0, "m", "user anna", "", None, "", None, let_through=False)
        ledger.refused(refusal)
    for number in range(2 * KINDS_MAX):
        ledger.used(Use("mallory", access.ACTION_GET, TOPIC, f"t{number}"), refused=True)
        refusal = Refusal(f"m{number}", 0, "m", "nobody", "", None, "", None, let_through=False)
        ledger.refused(refusal)
    assert len(ledger.uses("anna")) == 400
    assert len(ledger.uses()) == KINDS_MAX
    assert all(ledger.refusal(f"a{number}") is not None for number in range(400))
    assert ledger.refusal(f"m{2 * KINDS_MAX - 1}") is not None


async def test_a_stream_is_remembered_by_so_many_names():
    services = list(contract_services())
    methods = [f"/{s.full_name}/{m.name}" for s in services for m in s.methods]
    rule = method_rules(services, asked=methods)["/ariane.broker.v1.PullService/StreamPulls"]
    calls = LongCalls(Gate(AccessMode.OPEN, int))
    long = calls.enter(Call("m", "", None), rule)

    def pull(*topics):
        positions = [PullPosition(topic=topic) for topic in topics]
        return StreamPullsRequest(pull=PullRecordsRequest(positions=positions))

    for number in range(3 * USES_MAX // 100):
        calls.add(long, pull(*(f"{number}-{place}" for place in range(100)), "x" * 10_000))
        assert len(long.uses) <= USES_MAX + 102
    assert all(len(use.name) < 256 for use in long.uses)
    calls.leave(long)
    await asyncio.sleep(0)
