"""The pages of uploaded filters, and their changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from grpc import StatusCode
from grpc.aio import AioRpcError
from starlette.requests import Request

from ariane.admin.v1 import filter_service_pb2 as filter_pb
from ariane.filter.v1.filter_pb2 import FilterLanguage
from ariane_admin.asking.filter_servers import LOAD_SECONDS_MAX
from ariane_admin.console.api import CALL_S_MAX, Asker, silence
from ariane_admin.console.blocks import (
    Block,
    Cell,
    Fields,
    Form,
    Input,
    Listing,
    Notice,
    Page,
    Table,
    moment,
    next_page,
    size,
    to,
)
from ariane_admin.console.changing.change import Change, Given
from ariane_admin.counted import counted

SECTION: Final = "Filters"

_DIGITS: Final = 12
_UPLOAD: Final = Form(
    "Upload a filter",
    "/filters/upload",
    (
        Input("name", "Name", required=True),
        Input("module", "Python source; WebAssembly by ariane filter upload", kind="area"),
    ),
    "Upload",
)


async def filters(ask: Asker, request: Request) -> Page:
    """Versions of filters by name."""
    query = request.query_params
    asked = filter_pb.ListFiltersRequest(
        filter=query.get("name", ""), page_token=query.get("token", "")
    )
    try:
        answer = await ask(ask.api.filters.ListFilters, asked)
    except AioRpcError as error:
        if error.code() is not StatusCode.UNAVAILABLE:
            raise
        return Page("Filters", [Notice(error.details() or "No FilterServer answers.")], SECTION)
    search = Form("", "/filters", (Input("name", "Name", asked.filter, "search"),), "Search", "get")
    table = Table(
        "",
        ("Filter", "Language", "Size", "State", "Groups", "FilterServers", "Uploaded"),
        [_row(each) for each in answer.filters],
        "No filter is uploaded.",
        next_page(answer, "filters", name=asked.filter),
    )
    return Page("Filters", [*silence(answer), search, table, _UPLOAD], SECTION)


async def one_filter(ask: Asker, request: Request) -> Page:
    """One version with its module."""
    path = request.path_params
    name, version = path["name"], path["version"]
    answer = await ask(
        ask.api.filters.GetFilter, filter_pb.GetFilterRequest(filter=name, version=version)
    )
    kept = list(answer.filter.filters.values())
    first = kept[0]
    causes = sorted({each.quarantine_cause for each in kept if each.quarantine_cause})
    title = f"{name}@{first.version[:_DIGITS]}"
    named = (
        Input("name", value=name, kind="hidden"),
        Input("version", value=first.version, kind="hidden"),
    )
    why = [("Why it is stopped", Cell("; ".join(causes)))] if causes else []
    blocks: list[Block] = [
        *silence(answer),
        Fields(
            "",
            [
                ("Version", Cell(first.version, kind="code")),
                ("Language", Cell(_language(first.language))),
                ("State", _state(answer.filter)),
                *why,
                ("Groups that pull through it", Cell(", ".join(_groups(answer.filter)) or "none")),
                ("FilterServers", Cell(", ".join(sorted(answer.filter.filters)), kind="code")),
                ("Uploaded", Cell(moment(first, "create_time"))),
            ],
        ),
        Listing("Module", _text(answer.module)),
    ]
    if causes:
        blocks.append(Form("Let it run again", "/filters/release", named, "Release"))
    else:
        cause = Input("cause", "Why, for the groups that are refused", required=True)
        stop = Form("Stop it", "/filters/stop", (*named, cause), "Stop", danger=True)
        blocks.append(stop)
    blocks.append(Form("Delete it", "/filters/delete", named, "Delete", danger=True))
    return Page(title, blocks, SECTION, trail=[Cell("Filters", "/filters")])


async def _upload(ask: Asker, given: Given) -> str:
    request = filter_pb.UploadFilterRequest(filter=given["name"], module=given["module"].encode())
    answer = await ask(ask.api.filters.UploadFilter, request)
    called = f"{answer.filter.filter}@{answer.filter.version[:_DIGITS]}"
    done = "was there already" if answer.duplicate else "is uploaded"
    return f"{called} {done}.{_failed(answer)}"


async def _stop(ask: Asker, given: Given) -> str:
    request = filter_pb.UpdateFilterQuarantineRequest(
        filter=given["name"], version=given["version"], cause=given.get("cause", "")
    )
    answer = await ask(ask.api.filters.UpdateFilterQuarantine, request)
    return f"Filter {given['name']} is stopped.{_failed(answer)}"


async def _release(ask: Asker, given: Given) -> str:
    request = filter_pb.UpdateFilterQuarantineRequest(
        filter=given["name"], version=given["version"], release=True
    )
    answer = await ask(ask.api.filters.UpdateFilterQuarantine, request)
    return f"Filter {given['name']} may run again.{_failed(answer)}"


async def _delete(ask: Asker, given: Given) -> str:
    request = filter_pb.DeleteFilterRequest(filter=given["name"], version=given["version"])
    answer = await ask(ask.api.filters.DeleteFilter, request)
    return f"Filter {given['name']} is deleted.{_failed(answer)}"


def _page(given: Given) -> str:
    return to("filters", given["name"], given["version"])


def _list(_: Given) -> str:
    return "/filters"


FILTER_CHANGES: Final[Mapping[str, Change]] = {
    "/filters/upload": Change(
        "Upload filter {name} to the FilterServers of all brokers?",
        _upload,
        _list,
        within_s=LOAD_SECONDS_MAX + CALL_S_MAX,
    ),
    "/filters/stop": Change(
        "Stop filter {name} everywhere? Its groups get an error, and lose nothing.",
        _stop,
        _page,
        danger=True,
    ),
    "/filters/release": Change("Let filter {name} run again?", _release, _page),
    "/filters/delete": Change(
        "Delete this version of filter {name} at all FilterServers?", _delete, _list, danger=True
    ),
}
"""The changes of filters, by the path of their forms."""


def _row(found: filter_pb.ClusterFilter) -> tuple[Cell, ...]:
    first = next(iter(found.filters.values()))
    count = found.filter_server_count
    here = f"{len(found.filters)} of {count}"
    return (
        Cell(
            f"{first.filter}@{first.version[:_DIGITS]}",
            to("filters", first.filter, first.version),
            "code",
        ),
        Cell(_language(first.language)),
        size(first.module_size_bytes),
        _state(found),
        Cell(", ".join(_groups(found))),
        Cell(here, kind="" if len(found.filters) == count else "warn"),
        Cell(moment(first, "create_time"), kind="time"),
    )


def _state(found: filter_pb.ClusterFilter) -> Cell:
    stopped = sum(bool(each.quarantine_cause) for each in found.filters.values())
    if not stopped:
        return Cell("runs", kind="good")
    return Cell("stopped" if stopped == len(found.filters) else "stopped at some", kind="bad")


def _groups(found: filter_pb.ClusterFilter) -> list[str]:
    return sorted({group for each in found.filters.values() for group in each.consumer_groups})


def _language(language: FilterLanguage.ValueType) -> str:
    return FilterLanguage.Name(language).removeprefix("FILTER_LANGUAGE_").lower()


def _text(module: bytes) -> str:
    try:
        return module.decode()
    except UnicodeDecodeError:
        return f"{counted(len(module), 'byte')} of WebAssembly"


def _failed(
    answer: filter_pb.UploadFilterResponse
    | filter_pb.UpdateFilterQuarantineResponse
    | filter_pb.DeleteFilterResponse,
) -> str:
    failed = [each for each in answer.outcomes if each.HasField("error")]
    if not failed:
        return ""
    return " Not at " + "; ".join(f"{e.address}: {e.error.message}" for e in failed) + "."
