"""Who may change the filters of a FilterServer that has an upload token."""

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError
from pydantic import ValidationError

from ariane.filter.v1 import filter_service_pb2 as filter_pb
from ariane_filter.settings import FilterSettings
from ariane_servicekit import Address

TOKEN = "cmVuYXRlLWdyb25kZS1sZS1tb25kZQ=="  # noqa: S105 - of the tests
LATE = b"def matches(message): return True  # of the one with the token"
NAMED = {"filter": "late", "version": "0" * 64}

CHANGES = {
    "UploadFilter": filter_pb.UploadFilterRequest(filter="late", module=LATE),
    "TryFilter": filter_pb.TryFilterRequest(
        module=LATE, ranges=[filter_pb.MessageRange(topic="t", end_queue_offset=1)]
    ),
    "QuarantineFilter": filter_pb.QuarantineFilterRequest(**NAMED),
    "ReleaseFilter": filter_pb.ReleaseFilterRequest(**NAMED),
    "DeleteFilter": filter_pb.DeleteFilterRequest(**NAMED),
}
QUESTIONS = {
    "GetFilter": filter_pb.GetFilterRequest(**NAMED),
    "ListFilters": filter_pb.ListFiltersRequest(),
}


def said(word):
    return (("authorization", word),)


def test_every_method_is_a_change_or_a_question():
    [service] = filter_pb.DESCRIPTOR.services_by_name.values()
    assert {method.name for method in service.methods} == {*CHANGES, *QUESTIONS}


async def test_changes_need_the_token_and_questions_do_not(start_filter_server, failure_of, capsys):
    server = await start_filter_server(upload_token=TOKEN)
    for name, request in CHANGES.items():
        for metadata in (
            (),
            said(f"Bearer {TOKEN}x"),
            said(f"Basic {TOKEN}"),
            said("Bearer"),
            said(f"Bearer {TOKEN[:-1]}"),
            (*said("Bearer other"), *said(f"Bearer {TOKEN}")),
        ):
            with pytest.raises(AioRpcError) as refused:
                await getattr(server.filters, name)(request, metadata=metadata)
            assert refused.value.code() is StatusCode.PERMISSION_DENIED, (name, metadata)
            failure = failure_of(refused.value)
            assert failure.reason == "ACCESS_DENIED"
            assert "--token-file" in refused.value.details()
            assert TOKEN not in refused.value.details()
    logged = capsys.readouterr()
    assert TOKEN not in logged.out + logged.err
    listed = await server.filters.ListFilters(QUESTIONS["ListFilters"])
    assert not listed.filters
    kept = await server.filters.UploadFilter(
        CHANGES["UploadFilter"], metadata=said(f"Bearer {TOKEN}")
    )
    named = {"filter": "late", "version": kept.filter.version}
    read = await server.filters.GetFilter(filter_pb.GetFilterRequest(**named, include_module=True))
    assert read.module == LATE
    # The scheme's name is read as HTTP has it, in either case.
    await server.filters.DeleteFilter(
        filter_pb.DeleteFilterRequest(**named), metadata=said(f"bearer {TOKEN}")
    )
    assert not (await server.filters.ListFilters(QUESTIONS["ListFilters"])).filters


def test_uploads_from_elsewhere_are_never_for_everybody(tmp_path):
    reachable = {
        "data_path": tmp_path,
        "listen": Address("0.0.0.0", 9885),  # noqa: S104 - what is refused
        "advertised_address": Address("10.0.0.7", 9885),
        "insecure": True,
    }
    for uploads in ("wasm", "any"):
        with pytest.raises(ValidationError, match="upload_token"):
            FilterSettings(**reachable, uploads=uploads)
        assert FilterSettings(**reachable, uploads=uploads, upload_token=TOKEN)
    assert FilterSettings(**reachable, uploads="off")
    assert FilterSettings(data_path=tmp_path, uploads="any")


@pytest.mark.parametrize("token", ["short", "with blanks in between", "Ümläute-sind-keine-Zeichen"])
def test_a_token_can_be_said_in_a_header_and_not_be_guessed(tmp_path, token):
    with pytest.raises(ValidationError, match="upload_token"):
        FilterSettings(data_path=tmp_path, upload_token=token)


def test_a_token_is_not_told(tmp_path):
    settings = FilterSettings(data_path=tmp_path, upload_token=TOKEN)
    assert TOKEN not in repr(settings)
    assert TOKEN not in settings.model_dump_json()
