"""How long the console waits for what it changes, and what it asks before."""

from types import SimpleNamespace

from grpc import StatusCode

from ariane.admin.v1 import filter_service_pb2 as filter_pb
from ariane_admin.asking.filter_servers import LOAD_SECONDS_MAX
from ariane_admin.console.api import Api, Asker
from ariane_admin.console.app import STATUSES
from ariane_admin.console.changes import CHANGES
from ariane_admin.servicers.replica_sets import CALL_BESIDE_S, GRACE_S
from ariane_servicekit.error_table import ERROR_TABLE


async def test_a_change_may_take_as_long_as_it_says():
    waited = []

    async def upload(request, *, metadata, **how):
        waited.append(how["timeout"])
        return filter_pb.UploadFilterResponse()

    change = CHANGES["/filters/upload"]
    api = Api.__new__(Api)
    api._proof = ""
    api.filters = SimpleNamespace(UploadFilter=upload)
    await change.perform(Asker(api, "", change.within_s), {"name": "late", "module": "x"})
    assert waited == [change.within_s]
    assert change.within_s > LOAD_SECONDS_MAX
    # Who the members are is asked twice before: for the trail, and to find the primary.
    assert CHANGES["/cluster/switchover"].within_s > GRACE_S + 3 * CALL_BESIDE_S


def test_an_unclean_election_asks_a_question_of_its_own():
    assert "lost" in CHANGES["/cluster/elect-unclean"].question
    assert "lost" not in CHANGES["/cluster/elect"].question


def test_what_a_service_refuses_is_no_fault_of_the_console():
    own_faults = {StatusCode.INTERNAL, StatusCode.DATA_LOSS}
    assert {row.code for row in ERROR_TABLE.values()} - own_faults <= STATUSES.keys()
