"""``ariane access import``: users and rights of RocketMQ."""

from __future__ import annotations

from typing import Any, Final, TextIO

import click

from ariane.admin.v1 import access_policy_service_pb2 as policy_pb
from ariane.admin.v1 import user_service_pb2 as user_pb
from ariane.admin.v1.access_policy_service_pb2_grpc import AccessPolicyServiceStub
from ariane.admin.v1.user_service_pb2_grpc import UserServiceStub
from ariane.common.v1 import access_rules_pb2 as rules_pb
from ariane_admin.asking.admin_service import (
    admin_channel,
    admin_option,
    changed_through,
)
from ariane_admin.asking.connection import run_async
from ariane_admin.compat.rocketmq_acl import ImportedUser, imported
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.confirmation import dry_run_option
from ariane_admin.terminal.named_files import text_of
from ariane_admin.terminal.output import Output, output_option
from ariane_admin.users.entry_text import entry_row
from ariane_sdk.errors import CallError

_COLUMNS: Final = ("user", "kind", "decision", "actions", "resource", "name", "networks")


@click.command("import")
@click.argument("file", type=click.File(encoding="utf-8"))
@dry_run_option
@admin_option
@output_option
def import_rules(*, file: TextIO, dry_run: bool, admin: str, output: Output) -> None:
    """Take over users and rights from FILE, a list of RocketMQ's.

    FILE is plain_acl.yml (ACL 1.0), or a list of ACL 2.0: what mqadmin listAcl prints, or subjects
    with policies in JSON or YAML. Users that are missing are created; the policy of each is
    replaced. Secret keys are not taken over: ariane credential import-rocketmq does that.

    \b
    Examples:
      ariane access import plain_acl.yml --dry-run
      ariane access import acls.txt
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    found = imported(text_of(file))
    for left_out in found.left_out:
        say_warning(f"not taken over: {left_out}")
    if not dry_run:
        run_async(_write(admin, found.users))
    rows: list[dict[str, Any]] = []
    for user in found.users:
        kind = "super" if user.is_super else "normal"
        rows += ({"user": user.name, "kind": kind, **entry_row(entry)} for entry in user.entries)
        if not user.entries:
            nothing = {"decision": "", "actions": [], "resource": "", "name": "", "networks": []}
            rows.append({"user": user.name, "kind": kind, **nothing})
    output.rows(_COLUMNS, rows)


async def _write(admin: str, users: list[ImportedUser]) -> None:
    async with admin_channel(admin) as channel:
        for user in users:
            kind = rules_pb.USER_KIND_SUPER if user.is_super else rules_pb.USER_KIND_NORMAL
            wanted = user_pb.User(user=user.name, kind=kind, enabled=True)
            create = user_pb.CreateUserRequest(user=wanted)
            try:
                await changed_through(admin, UserServiceStub(channel).CreateUser, create)
            except CallError as error:
                if error.reason != "USER_EXISTS":
                    raise
            policy = policy_pb.AccessPolicy(user=user.name, entries=user.entries)
            update = policy_pb.UpdateAccessPolicyRequest(policy=policy)
            method = AccessPolicyServiceStub(channel).UpdateAccessPolicy
            await changed_through(admin, method, update)
