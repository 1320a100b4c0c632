"""``ariane access``: what users may do, and why something was refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from ariane.admin.v1 import access_policy_service_pb2 as policy_pb
from ariane.admin.v1.access_policy_service_pb2_grpc import AccessPolicyServiceStub
from ariane.common.v1 import access_rules_pb2 as rules_pb
from ariane_admin.asking.admin_service import (
    admin_option,
    answer_of_admin,
    changed_by_admin,
    entries_of_admin,
)
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row, output_option
from ariane_admin.times import moment_text
from ariane_admin.users.entry_text import ACTIONS, RESOURCES, entry_of, entry_row
from ariane_servicekit.security.rules.words import action_word, resource_word

_COLUMNS: Final = ("user", "decision", "actions", "resource", "name", "networks")
_ENTRY_COLUMNS: Final = _COLUMNS[1:]

_resource = click.argument("resource", type=click.Choice(sorted(RESOURCES)))
_name = click.argument("name", default="*")
_from = click.option(
    "--from",
    "networks",
    multiple=True,
    metavar="NETWORK",
    help="Only for callers from there, such as 10.1.0.0/16; may be repeated.",
)


def _actions_of(_: click.Context, __: click.Parameter, value: str) -> list[str]:
    words = [word.strip().upper() for word in value.split(",") if word.strip()]
    unknown = [word for word in words if word not in ACTIONS]
    if unknown or not words:
        raise click.BadParameter(f"{value!r}: some of {', '.join(ACTIONS)}, with commas between")
    return words


_actions = click.argument("actions", callback=_actions_of)


@click.command("list")
@click.argument("user", required=False)
@click.option("--resource", type=click.Choice(sorted(RESOURCES)), help="Only on such things.")
@click.option("--name", default="", help="Only what fits this name.")
@admin_option
@output_option
def list_entries(
    *, user: str | None, resource: str | None, name: str, admin: str, output: Output
) -> None:
    """List what users and roles may do; with USER, or role:NAME, only its entries.

    \b
    Examples:
      ariane access list anna
      ariane access list --resource topic --name orders
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if user is not None:
        found: Sequence[policy_pb.AccessPolicy] = [_policy(admin, user)]
    else:
        request = policy_pb.ListAccessPoliciesRequest(name=name)
        if resource is not None:
            request.resource = RESOURCES[resource]
        found = entries_of_admin(
            admin,
            lambda channel: AccessPolicyServiceStub(channel).ListAccessPolicies,
            request,
            lambda page: page.policies,
        )
    rows = [
        {"user": policy.user, **entry_row(entry)} for policy in found for entry in policy.entries
    ]
    output.rows(_COLUMNS, rows)


@click.command("grant")
@click.argument("user")
@_actions
@_resource
@_name
@click.option("--deny", is_flag=True, help="Deny it, whatever else allows it.")
@_from
@admin_option
@output_option
def grant(
    *,
    user: str,
    actions: Sequence[str],
    resource: str,
    name: str,
    deny: bool,
    networks: Sequence[str],
    admin: str,
    output: Output,
) -> None:
    """Let USER, or all with role:NAME, do ACTIONS on things of the kind RESOURCE called NAME.

    ACTIONS are PUBLISH, SUBSCRIBE, CREATE, UPDATE, DELETE and GET, with commas between. A NAME that
    ends with * stands for all that begin so, and * alone for all; names of the system must be given
    in full. PUBLISH and SUBSCRIBE include GET. The change holds everywhere within seconds.

    \b
    Examples:
      ariane access grant billing SUBSCRIBE group billing
      ariane access grant shop PUBLISH topic 'order-*' --from 10.1.0.0/16
      ariane access grant role:ops GET cluster
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    entry = entry_of(actions, resource, name, deny=deny, networks=networks)

    def add(entries: list[rules_pb.AccessEntry]) -> list[rules_pb.AccessEntry]:
        return entries if entry in entries else [*entries, entry]

    _change(admin, user, add)
    word = "is denied" if deny else "is granted"
    output.done(
        f"{','.join(actions)} on {resource} {name} {word} to {user}",
        {"user": user, **entry_row(entry)},
    )


@click.command("revoke")
@click.argument("user")
@_actions
@_resource
@_name
@admin_option
@output_option
def revoke(
    *,
    user: str,
    actions: Sequence[str],
    resource: str,
    name: str,
    admin: str,
    output: Output,
) -> None:
    """Take ACTIONS on RESOURCE NAME out of all entries of USER, or of role:NAME, that say just so.

    \b
    Example:
      ariane access revoke shop PUBLISH topic 'order-*'
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    wanted = entry_of(actions, resource, name)
    taken = 0

    def without(entries: list[rules_pb.AccessEntry]) -> list[rules_pb.AccessEntry]:
        nonlocal taken
        left: list[rules_pb.AccessEntry] = []
        for entry in entries:
            same = (entry.resource, entry.pattern, entry.name) == (
                *(wanted.resource, wanted.pattern),
                wanted.name,
            )
            kept = [each for each in entry.actions if each not in wanted.actions]
            if not same or len(kept) == len(entry.actions):
                left.append(entry)
                continue
            taken += 1
            if kept:
                entry.ClearField("actions")
                entry.actions.extend(kept)
                left.append(entry)
        return left

    _change(admin, user, without)
    if not taken:
        raise CommandFailed(
            f"{user} has no entry with {','.join(actions)} on {resource} {name};"
            f" ariane access list {user} shows all",
            ExitStatus.NOT_FOUND,
        )
    row = {"user": user, "actions": list(actions), "resource": resource, "name": name}
    output.done(f"{','.join(actions)} on {resource} {name} is revoked from {user}", row)


@click.command("test")
@click.argument("user")
@click.argument("action", type=click.Choice(sorted(ACTIONS), case_sensitive=False))
@_resource
@_name
@click.option("--from", "address", default="", help="The address that the call would come from.")
@admin_option
@output_option
def test(
    *,
    user: str,
    action: str,
    resource: str,
    name: str,
    address: str,
    admin: str,
    output: Output,
) -> int:
    """Say whether USER may do ACTION on RESOURCE NAME, and which entry decides.

    The exit status is 1 if it may not.

    \b
    Example:
      ariane access test shop PUBLISH topic order-7
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    request = policy_pb.CheckAccessRequest(
        user=user,
        action=ACTIONS[action.upper()],
        resource=RESOURCES[resource],
        name="" if name == "*" else name,
        source_address=address,
    )
    answer = answer_of_admin(
        admin, lambda channel: AccessPolicyServiceStub(channel).CheckAccess, request
    )
    allowed = answer.decision == rules_pb.ACCESS_DECISION_ALLOW
    row: dict[str, Any] = {"user": user, "allowed": allowed}
    if answer.HasField("entry"):
        row |= {f"by_{key}": value for key, value in entry_row(answer.entry).items()}
    output.record(row)
    return ExitStatus.DONE if allowed else ExitStatus.FAILED


@click.command("suggest")
@click.argument("user")
@click.option("--refused", is_flag=True, help="Show instead what was refused, or would have been.")
@admin_option
@output_option
def suggest(*, user: str, refused: bool, admin: str, output: Output) -> int:
    """Suggest the least rights for what USER did since the processes began.

    It is complete only for processes that ran with access = learn meanwhile.

    \b
    Example:
      ariane access suggest shop
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    answer = answer_of_admin(
        admin,
        lambda channel: AccessPolicyServiceStub(channel).SuggestAccess,
        policy_pb.SuggestAccessRequest(user=user),
    )
    if refused:
        output.rows(
            ("action", "resource", "name", "refused_count"),
            [
                {
                    "action": action_word(use.action),
                    "resource": resource_word(use.resource),
                    "name": use.name,
                    "refused_count": use.refused_count,
                }
                for use in answer.refused
            ],
        )
    else:
        output.rows(_ENTRY_COLUMNS, map(entry_row, answer.entries))
    return _warn_of_silent(answer.silent_addresses)


@click.command("explain")
@click.argument("request_id")
@admin_option
@output_option
def explain(*, request_id: str, admin: str, output: Output) -> int:
    """Explain why the call with REQUEST_ID was refused: its error tells the id.

    \b
    Example:
      ariane access explain 4fd3a2c1b09e8d77
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    answer = answer_of_admin(
        admin,
        lambda channel: AccessPolicyServiceStub(channel).ExplainRefusal,
        policy_pb.ExplainRefusalRequest(request_id=request_id),
    )
    if not answer.HasField("refusal"):
        _warn_of_silent(answer.silent_addresses)
        raise CommandFailed(
            f"no process that answers remembers a refusal of request {request_id}",
            ExitStatus.NOT_FOUND,
        )
    output.record(_refusal_row(answer))
    return ExitStatus.DONE


def _policy(admin: str, user: str) -> policy_pb.AccessPolicy:
    request = policy_pb.GetAccessPolicyRequest(user=user)
    return answer_of_admin(
        admin, lambda channel: AccessPolicyServiceStub(channel).GetAccessPolicy, request
    ).policy


def _change(
    admin: str,
    user: str,
    change: Callable[[list[rules_pb.AccessEntry]], list[rules_pb.AccessEntry]],
) -> None:
    """Change a policy; if somebody else has changed it meanwhile, the command says so."""
    present = _policy(admin, user)
    wanted = policy_pb.AccessPolicy(user=user, entries=change(list(present.entries)))
    request = policy_pb.UpdateAccessPolicyRequest(policy=wanted, known_version=present.version)
    changed_by_admin(
        admin, lambda channel: AccessPolicyServiceStub(channel).UpdateAccessPolicy, request
    )


def _warn_of_silent(addresses: Sequence[str]) -> ExitStatus:
    for address in addresses:
        say_warning(f"{address} does not answer, and the result lacks it")
    return ExitStatus.UNREACHABLE if addresses else ExitStatus.DONE


def _refusal_row(explained: policy_pb.ExplainRefusalResponse) -> Row:
    refusal = explained.refusal
    row: dict[str, Any] = {
        "request_id": refusal.request_id,
        "time": moment_text(refusal, "time"),
        "process": explained.address,
        "method": refusal.method,
        "caller": refusal.caller,
        "from": refusal.source_address,
        "cause": refusal.cause,
        "let_through": refusal.let_through,
    }
    if refusal.HasField("entry"):
        row |= {f"by_{key}": value for key, value in entry_row(refusal.entry).items()}
    return row
