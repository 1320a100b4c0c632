"""Filters through the service and the console, at FilterServers beside both brokers."""

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError

from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1 import filter_service_pb2 as filter_pb
from ariane.admin.v1.filter_service_pb2_grpc import FilterServiceStub

ALL = b"def matches(message): return True  # adm"


async def test_a_filter_is_uploaded_stopped_released_and_deleted(ready, admin, entries):
    stub = FilterServiceStub(admin)
    upload = filter_pb.UploadFilterRequest(filter="adm-all", module=ALL)
    told = await stub.UploadFilter(upload)
    assert [each.HasField("error") for each in told.outcomes] == [False, False]
    assert not told.duplicate
    assert (await stub.UploadFilter(upload)).duplicate
    version = told.filter.version
    [found] = (await stub.ListFilters(filter_pb.ListFiltersRequest(filter="adm-all"))).filters
    assert (len(found.filters), found.filter_server_count) == (2, 2)
    named = {"filter": "adm-all", "version": version}
    read = await stub.GetFilter(filter_pb.GetFilterRequest(**named))
    assert read.module == ALL
    stop = filter_pb.UpdateFilterQuarantineRequest(**named, cause="wild")
    await stub.UpdateFilterQuarantine(stop)
    read = await stub.GetFilter(filter_pb.GetFilterRequest(**named))
    assert {each.quarantine_cause for each in read.filter.filters.values()} == {"wild"}
    await stub.UpdateFilterQuarantine(
        filter_pb.UpdateFilterQuarantineRequest(**named, release=True)
    )
    await stub.DeleteFilter(filter_pb.DeleteFilterRequest(**named))
    with pytest.raises(AioRpcError) as refused:
        await stub.DeleteFilter(filter_pb.DeleteFilterRequest(**named))
    assert refused.value.code() is StatusCode.NOT_FOUND
    changes = await entries(resource_name="adm-all")
    assert [each.outcome for each in changes] == [
        *[audit_pb.AUDIT_OUTCOME_DONE] * 5,
        audit_pb.AUDIT_OUTCOME_FAILED,
    ]
    assert "left out" in changes[0].request_json


async def test_the_console_uploads_shows_stops_and_deletes(ready, browser):
    done = await browser.change("/filters/upload", name="adm-seen", module=ALL.decode())
    assert "adm-seen@" in done.text
    assert "is uploaded." in done.text
    path = done.text.partition('href="/filters/adm-seen/')[2].partition('"')[0]
    shown = await browser.get(f"/filters/adm-seen/{path}")
    assert "return True  # adm" in shown.text
    named = {"name": "adm-seen", "version": path}
    stopped = await browser.change("/filters/stop", **named, cause="wild")
    assert "Let it run again" in stopped.text
    assert "may run again" in (await browser.change("/filters/release", **named)).text
    assert "is deleted." in (await browser.change("/filters/delete", **named)).text
