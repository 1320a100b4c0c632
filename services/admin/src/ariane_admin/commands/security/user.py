"""``ariane user``: who may come in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from ariane.admin.v1 import user_service_pb2 as user_pb
from ariane.admin.v1.user_service_pb2_grpc import UserServiceStub
from ariane.common.v1 import access_rules_pb2 as rules_pb
from ariane_admin.asking.admin_service import (
    admin_option,
    answer_of_admin,
    changed_by_admin,
    entries_of_admin,
)
from ariane_admin.terminal.confirmation import confirm, yes_option
from ariane_admin.terminal.output import Output, output_option
from ariane_admin.times import moment_text

_COLUMNS: Final = ("user", "kind", "enabled", "roles", "description")


@click.command("list")
@admin_option
@output_option
def list_users(*, admin: str, output: Output) -> None:
    """List users by name.

    \b
    Example:
      ariane user list -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    found = entries_of_admin(
        admin,
        lambda channel: UserServiceStub(channel).ListUsers,
        user_pb.ListUsersRequest(),
        lambda page: page.users,
    )
    output.rows(_COLUMNS, map(_row, found))


@click.command("show")
@click.argument("user")
@admin_option
@output_option
def show(*, user: str, admin: str, output: Output) -> None:
    """Show USER.

    \b
    Example:
      ariane user show anna
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    request = user_pb.GetUserRequest(user=user)
    answer = answer_of_admin(admin, lambda channel: UserServiceStub(channel).GetUser, request)
    output.record(_row(answer.user))


@click.command("create")
@click.argument("user")
@click.option("--super", "is_super", is_flag=True, help="May do everything.")
@click.option("--role", "roles", multiple=True, help="A role that it has; may be repeated.")
@click.option("--description", default="", help="Who that is.")
@admin_option
@output_option
def create(
    *,
    user: str,
    is_super: bool,
    roles: Sequence[str],
    description: str,
    admin: str,
    output: Output,
) -> None:
    """Create USER, without rights of its own.

    \b
    Examples:
      ariane user create billing --role consumers
      ariane user create anna --super --description "on call"
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    wanted = user_pb.User(
        user=user,
        kind=rules_pb.USER_KIND_SUPER if is_super else rules_pb.USER_KIND_NORMAL,
        enabled=True,
        roles=roles,
        description=description,
    )
    made = changed_by_admin(
        admin,
        lambda channel: UserServiceStub(channel).CreateUser,
        user_pb.CreateUserRequest(user=wanted),
    ).user
    output.done(f"user {made.user} is created; ariane access grant gives it rights", _row(made))


@click.command("update")
@click.argument("user")
@click.option("--enable/--disable", "enabled", default=None, help="Whether it may come in.")
@click.option("--super/--normal", "is_super", default=None, help="Whether it may do everything.")
@click.option("--role", "roles", multiple=True, help="Its roles from now on; may be repeated.")
@click.option("--no-roles", is_flag=True, help="Take all roles away.")
@click.option("--description", help="Who that is.")
@admin_option
@output_option
def update(
    *,
    user: str,
    enabled: bool | None,
    is_super: bool | None,
    roles: Sequence[str],
    no_roles: bool,
    description: str | None,
    admin: str,
    output: Output,
) -> None:
    """Change USER. One that is disabled is refused everywhere within seconds.

    \b
    Examples:
      ariane user update anna --disable
      ariane user update billing --role consumers --role audit
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    request = user_pb.UpdateUserRequest(user=user, enabled=enabled, description=description)
    if is_super is not None:
        request.kind = rules_pb.USER_KIND_SUPER if is_super else rules_pb.USER_KIND_NORMAL
    if roles or no_roles:
        request.roles.CopyFrom(user_pb.RoleList(roles=() if no_roles else roles))
    answer = changed_by_admin(admin, lambda channel: UserServiceStub(channel).UpdateUser, request)
    output.done(f"user {user} is changed", _row(answer.user))


@click.command("delete")
@click.argument("user")
@yes_option
@admin_option
@output_option
def delete(*, user: str, yes: bool, admin: str, output: Output) -> None:
    """Delete USER with its rights.

    Nobody comes in by the name until a user of this name is created again.

    \b
    Example:
      ariane user delete anna --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    confirm(f"Delete user {user} with its rights?", yes=yes)
    request = user_pb.DeleteUserRequest(user=user)
    changed_by_admin(admin, lambda channel: UserServiceStub(channel).DeleteUser, request)
    output.done(f"user {user} is deleted", {"user": user, "deleted": True})


def _row(user: user_pb.User) -> dict[str, Any]:
    return {
        "user": user.user,
        "kind": "super" if user.kind == rules_pb.USER_KIND_SUPER else "normal",
        "enabled": user.enabled,
        "roles": list(user.roles),
        "description": user.description,
        "created": moment_text(user, "create_time"),
        "version": user.version,
    }
