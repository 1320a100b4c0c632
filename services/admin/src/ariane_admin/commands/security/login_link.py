"""``ariane user login-link``: a way into the console for those who have a key."""

from __future__ import annotations

import click

from ariane.admin.v1 import console_service_pb2 as console_pb
from ariane.admin.v1.console_service_pb2_grpc import ConsoleServiceStub
from ariane_admin.asking.admin_service import (
    ADMIN_SECONDS_MAX,
    admin_channel,
    admin_option,
    own_name,
)
from ariane_admin.asking.cluster_doors import answer_of
from ariane_admin.asking.connection import run_async
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

    async def ask() -> console_pb.CreateSignInLinkResponse:
        async with admin_channel(admin) as channel:
            request = console_pb.CreateSignInLinkRequest()
            stub = ConsoleServiceStub(channel)
            call = stub.CreateSignInLink(request, timeout=ADMIN_SECONDS_MAX, metadata=own_name())
            return await answer_of(call, f"admin {admin}")

    made = run_async(ask())
    output.done(made.link, {"link": made.link, "holds_s": made.lifetime.seconds})
