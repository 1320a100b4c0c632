"""Who may change the filters of a FilterServer, whatever the setting ``access`` says."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ariane.filter.v1 import filter_service_pb2 as filter_pb
from ariane_filter.rpc.known_changers import for_known_changers
from ariane_servicekit import RpcService, ServiceError
from ariane_servicekit.rpc.calls import Call, enter_call
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.gate import Gate
from ariane_wire import Identity

[SERVICE] = filter_pb.DESCRIPTOR.services_by_name.values()
QUESTIONS = {"GetFilter", "ListFilters"}
CHANGES = {each.name for each in SERVICE.methods} - QUESTIONS

HERE = ("ipv4:127.0.0.1:40000", "ipv4:127.3.2.1:40000", "ipv6:[::1]:40000", "unix:")
ELSEWHERE = ("ipv4:10.0.0.7:40000", "ipv6:[2001:db8::7]:40000", "")


@pytest.fixture
def call():
    """Calls a method as a peer; returns whether it was reached."""

    async def reached(request, context):
        return "reached"

    servicer = SimpleNamespace(**{each.name: reached for each in SERVICE.methods})
    guarded = for_known_changers(RpcService(SERVICE, None, servicer)).servicer

    async def call(method, peer, *, is_judged=False, mode=AccessMode.CLOSED, is_proxied=False):
        made = Call(method, "", None)
        made.is_judged, made.gate = is_judged, Gate(mode, int)
        enter_call(made)
        identity = Identity(peer, is_proxied=is_proxied)
        context = SimpleNamespace(peer=lambda: peer, identity=lambda: identity)
        return await getattr(guarded, method)(None, context)

    return call


@pytest.mark.parametrize("method", sorted(CHANGES))
async def test_foreign_code_comes_from_known_users_or_from_this_machine(call, method):
    for peer in HERE:
        assert await call(method, peer) == "reached"
    for peer in ELSEWHERE:
        # Judged: its user has the right on the filter.
        assert await call(method, peer, is_judged=True) == "reached"
        with pytest.raises(ServiceError, match="nobody is known here") as refused:
            await call(method, peer)
        assert refused.value.row.name == "ACCESS_DENIED"
        # Learned is what users do, also without the right on the filter.
        with pytest.raises(ServiceError, match="nobody is known here"):
            await call(method, peer, is_judged=True, mode=AccessMode.LEARN)
    # The address that a proxy tells is not that of this machine.
    with pytest.raises(ServiceError, match="nobody is known here"):
        await call(method, HERE[0], is_proxied=True)


async def test_questions_are_answered_where_access_is_open(call):
    assert {
        *("UploadFilter", "TryFilter", "QuarantineFilter", "ReleaseFilter", "DeleteFilter")
    } == CHANGES
    for method in QUESTIONS:
        for peer in (*HERE, *ELSEWHERE):
            assert await call(method, peer) == "reached"
