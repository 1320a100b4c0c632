"""The page of settings, and of definitions of topics and groups."""

from __future__ import annotations

import json
from typing import Final

from google.protobuf.json_format import MessageToDict
from grpc import StatusCode
from grpc.aio import AioRpcError
from starlette.requests import Request

from ariane.admin.v1 import definition_service_pb2 as definition_pb
from ariane.admin.v1 import setting_service_pb2 as setting_pb
from ariane.common.v1.process_service_pb2 import ProcessSetting
from ariane_admin.console.api import Asker, silence
from ariane_admin.console.blocks import Block, Cell, Fields, Form, Input, Notice, Page, Table, to

_SERVICES: Final = tuple((name, name) for name in ("broker", "namesrv", "txn-checker", "admin"))
_NOBODY: Final = {StatusCode.INVALID_ARGUMENT, StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED}


async def settings(ask: Asker, request: Request) -> Page:
    """Settings of all processes of a kind, and export and import of definitions."""
    service = request.query_params.get("service", "broker")
    search = Form(
        "",
        "/settings",
        (Input("service", "Processes", service, "select", _SERVICES),),
        "Show",
        "get",
    )
    try:
        answer = await ask(
            ask.api.settings.ListSettings, setting_pb.ListSettingsRequest(service=service)
        )
    except AioRpcError as error:
        # Those of other processes can be seen nevertheless.
        if error.code() not in _NOBODY:
            raise
        known = error.code() is not StatusCode.INVALID_ARGUMENT
        why = error.details() if known else f"There is no {service} in this cluster."
        blocks: list[Block] = [search, Notice(why or "Nobody answers.", "bad")]
        return Page("Settings", [*blocks, *_definitions_blocks()], "Settings")
    rows = [
        (
            Cell(each.setting.name, kind="code"),
            Cell(" | ".join(sorted(set(each.values.values())))),
            Cell("yes", kind="good") if each.setting.dynamic else Cell(""),
            Cell(_meaning(each.setting), kind="text"),
        )
        for each in answer.settings
    ]
    table = Table("", ("Setting", "Now", "May change", "Meaning"), rows)
    blocks = [search, *silence(answer), *_change(service, answer), *_definitions_blocks(), table]
    return Page("Settings", blocks, "Settings")


async def definitions(ask: Asker) -> bytes:
    """All topics and groups as JSON."""
    answer = await ask(
        ask.api.definitions.ExportDefinitions, definition_pb.ExportDefinitionsRequest()
    )
    row = MessageToDict(answer.definitions, preserving_proto_field_name=True)
    return json.dumps(row, indent=2, ensure_ascii=False).encode() + b"\n"


def _meaning(setting: ProcessSetting) -> str:
    default = f"default {setting.default_value}" if setting.default_value else "no default"
    return f"{setting.description} ({setting.type}; {default})"


def _change(service: str, answer: setting_pb.ListSettingsResponse) -> list[Block]:
    """The form to change one; nothing if none may change."""
    names = tuple((s.setting.name, s.setting.name) for s in answer.settings if s.setting.dynamic)
    if not names:
        return []
    return [
        Form(
            "Change a setting until the process ends",
            "/settings/update",
            (
                Input("service", value=service, kind="hidden"),
                Input("name", "Setting", names[0][0], "select", names),
                Input("value", "Value", required=True),
                Input("address", "Only at this address; empty for all"),
            ),
            "Change",
        )
    ]


def _definitions_blocks() -> list[Block]:
    return [
        Form(
            "Bring definitions of topics and groups in",
            "/definitions/import",
            (Input("definitions", "JSON as it was taken out", kind="area", required=True),),
            "Bring in",
        ),
        Fields("", [("Take them out", Cell("definitions.json", to("definitions", "export")))]),
    ]
