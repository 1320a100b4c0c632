"""``ariane user login-link``: a way into the console for those who have a key."""

from __future__ import annotations

import click

from ariane.admin.v1 import console_service_pb2 as console_pb
from ariane.admin.v1.console_service_pb2_grpc import ConsoleServiceStub
from ariane_admin.asking.admin_service import admin_option, changed_by_admin
from ariane_admin.terminal.output import Output, output_option


@click.command("login-link")
@admin_option
@output_option
def login_link(*, admin: str, output: Output) -> None:
    """Print a link by which you, and nobody else, sign in to the console.

    You are who your key or certificate says. The link holds once, and for two minutes; the session
    that it begins ends by itself. Give the link to nobody.

    \b
    Example:
      ariane user login-link --admin admin.example:9881
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    made = changed_by_admin(
        admin,
        lambda channel: ConsoleServiceStub(channel).CreateSignInLink,
        console_pb.CreateSignInLinkRequest(),
    )
    output.done(made.link, {"link": made.link, "holds_s": made.lifetime.seconds})
