"""``ariane definition``: all topics and groups, out of one cluster and into another."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TextIO

import click

from ariane_admin.asking.admin_service import (
    admin_channel,
    admin_option,
    answer_of_admin,
    changed_through,
)
from ariane_admin.asking.connection import run_async
from ariane_admin.counted import counted
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.confirmation import confirm, yes_option
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.named_files import FileToWrite
from ariane_admin.terminal.output import Output, Row, output_option


@click.command("export")
@click.option(
    "--to",
    "target",
    type=FileToWrite(allow_dash=True),
    default="-",
    help="File to write; standard output by default.",
)
@admin_option
def export(*, target: Path, admin: str) -> None:
    """Write the definitions of all topics and groups as JSON.

    The export fails if a broker does not answer, as an incomplete export would look complete.

    \b
    Example:
      ariane definition export --to definitions.json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - slow to load

    from ariane.admin.v1 import definition_service_pb2 as definition_pb  # noqa: PLC0415
    from ariane.admin.v1.definition_service_pb2_grpc import (  # noqa: PLC0415
        DefinitionServiceStub,
    )

    answer = answer_of_admin(
        admin,
        lambda channel: DefinitionServiceStub(channel).ExportDefinitions,
        definition_pb.ExportDefinitionsRequest(),
    )
    for name in answer.uneven_names:
        say_warning(f"{name} differs between brokers: exported as on the first one")
    row = MessageToDict(answer.definitions, preserving_proto_field_name=True)
    # Only now: an older export under this name stays if there is no new one.
    with click.open_file(os.fspath(target), "w", encoding="utf-8") as file:
        file.write(json.dumps(row, indent=2, ensure_ascii=False) + "\n")


@click.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option(
    "--other-cluster", is_flag=True, help="Allow an export of a cluster with another name."
)
@yes_option
@admin_option
@output_option
def import_definitions(
    *, file: TextIO, dry_run: bool, other_cluster: bool, yes: bool, admin: str, output: Output
) -> None:
    """Create the topics and groups of FILE that are missing, and change those that differ.

    Nothing is deleted, and repeating the import changes nothing. An export records the name of its
    cluster; to import it into a cluster with another name, give --other-cluster.

    \b
    Examples:
      ariane definition import definitions.json --dry-run
      ariane definition import definitions.json --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    from google.protobuf.json_format import ParseDict, ParseError  # noqa: PLC0415 - slow to load

    from ariane.admin.v1 import definition_service_pb2 as definition_pb  # noqa: PLC0415
    from ariane.admin.v1.definition_service_pb2_grpc import (  # noqa: PLC0415
        DefinitionServiceStub,
    )
    from ariane_admin.asking.changing.definition_parts import parts_of  # noqa: PLC0415

    try:
        read = json.load(file)
        if not isinstance(read, dict):
            raise ParseError("expected an object with topics and groups")  # noqa: TRY301 - one end
        definitions = ParseDict(read, definition_pb.Definitions())
    except (ValueError, ParseError, RecursionError) as error:
        raise CommandFailed(
            f"{file.name} holds no definitions: {error}", ExitStatus.USAGE
        ) from error
    if not dry_run:
        topics = counted(len(definitions.topics), "topic")
        groups = counted(len(definitions.groups), "group")
        confirm(f"Create or change {topics} and {groups} as in {file.name}?", yes=yes)
    changes: list[definition_pb.DefinitionChange] = []
    silent: set[str] = set()

    async def ask() -> None:
        async with admin_channel(admin) as channel:
            stub = DefinitionServiceStub(channel)
            for part in parts_of(definitions):
                request = definition_pb.ImportDefinitionsRequest(
                    definitions=part,
                    validate_only=dry_run,
                    allow_other_cluster=other_cluster,
                )
                answer = await changed_through(admin, stub.ImportDefinitions, request)
                changes.extend(answer.changes)
                silent.update(each.broker_name for each in answer.silent_brokers)

    run_async(ask())
    rows: list[Row] = [
        {
            "subject": each.subject,
            "broker": each.broker_name,
            "action": each.action,
            "failure": each.failure,
        }
        for each in changes
    ]
    output.rows(("subject", "broker", "action", "failure"), rows)
    failed = sum(bool(each.failure) for each in changes)
    if silent:
        names = ", ".join(sorted(silent))
        raise CommandFailed(f"{names} did not answer and were not changed", ExitStatus.UNREACHABLE)
    if failed:
        raise CommandFailed(f"{failed} of {counted(len(rows), 'change')} failed")
