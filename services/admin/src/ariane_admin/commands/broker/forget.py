"""``ariane broker forget``: a broker that does not come back."""

from __future__ import annotations

import click

from ariane.admin.v1.cluster_service_pb2 import ForgetBrokerRequest
from ariane_admin.asking.changing.changes import AdminChoice, change_options, changed
from ariane_admin.counted import counted
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.confirmation import confirm, dry_run_option, yes_option
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output
from ariane_admin.times import moment_text


@click.command("forget")
@click.argument("name")
@dry_run_option
@yes_option
@change_options
def forget(
    *,
    name: str,
    dry_run: bool,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Have the name servers forget broker NAME, which has left for good.

    For a day, routes name a broker that has left without a drain as away, since offsets of groups
    may be there alone: a group without offsets elsewhere waits a minute for it, then begins at the
    first message. Once it is forgotten, such a group is new, and begins where it is told to. A
    broker that is registered is not forgotten; if a forgotten one comes back, it registers as any
    other. An order of queues that names it stays (ariane topic order).

    \b
    Examples:
      ariane broker forget broker-c --dry-run
      ariane broker forget broker-c --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if not dry_run:
        confirm(f"Forget broker {name}, and the offsets of groups that only it has?", yes=yes)
    request = ForgetBrokerRequest(broker_name=name, validate_only=dry_run)
    forgotten = changed(name_servers, admin, lambda one: one.cluster.ForgetBroker, request)
    for reason in forgotten.name_server_failures:
        say_warning(reason)
    does = "would no longer name" if dry_run else "no longer name"
    output.done(
        f"Routes of {counted(forgotten.topic_count, 'topic')} {does} broker {name} as away.",
        {
            "broker": name,
            "topics": forgotten.topic_count,
            "left": moment_text(forgotten, "leave_time"),
            "name_server_failures": list(forgotten.name_server_failures),
            "dry_run": dry_run,
        },
    )
    if forgotten.name_server_failures:
        raise CommandFailed(
            f"{counted(len(forgotten.name_server_failures), 'name server')} did not answer"
            " and may still name"
            " it; repeat the command when they answer",
            ExitStatus.UNREACHABLE,
        )
