"""``ariane credential``: keys by which users prove who they are."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import Any, Final, TextIO

import click

from ariane.admin.v1 import user_service_pb2 as user_pb
from ariane.admin.v1.user_service_pb2_grpc import UserServiceStub
from ariane_admin.asking.admin_service import (
    admin_channel,
    admin_option,
    changed_by_admin,
    changed_through,
    entries_of_admin,
)
from ariane_admin.asking.connection import run_async
from ariane_admin.compat.rocketmq_keys import keys_of
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.confirmation import confirm, yes_option
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.named_files import FileToWrite, text_of
from ariane_admin.terminal.output import Output, output_option
from ariane_admin.times import moment_text
from ariane_sdk.errors import CallError
from ariane_sdk.security import is_loopback, tls_files

_COLUMNS: Final = ("credential", "kind", "description", "created", "expires")
_DAY_S: Final = 86_400


@click.command()
@click.argument("file", type=FileToWrite())
@click.option("--user", required=True, help="The user that the key belongs to.")
@click.option(
    "--id",
    "credential_id",
    help="Id of the credential, unique in the cluster. By default, one is drawn.",
)
@click.option("--days", type=click.IntRange(1, 36_500), help="Let it end after so many days.")
@click.option("--description", default="", help="What it is for.")
@admin_option
@output_option
def create(
    *,
    file: Path,
    user: str,
    credential_id: str | None,
    days: int | None,
    description: str,
    admin: str,
    output: Output,
) -> None:
    """Write a new private key of USER to FILE, and let admin know the public one.

    The private key stays in FILE and never travels. Admin tells all processes the public one.

    \b
    Examples:
      ariane credential create billing.key --user billing --days 90
      ARIANE_CREDENTIALS=billing.key ariane topic list
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    # Loading it takes longer than all help.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PrivateKey,
    )

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    wanted = user_pb.Credential(
        credential_id=credential_id or secrets.token_hex(8),
        kind=user_pb.CREDENTIAL_KIND_SIGNING_KEY,
        public_key=key.public_key().public_bytes_raw(),
        description=description,
    )
    if days is not None:
        wanted.expire_time.FromSeconds(int(time.time()) + days * _DAY_S)
    names = f"user: {user}\ncredential: {wanted.credential_id}\n"
    head = f"Private key of ArianeMQ. Keep it secret.\n{names}"

    # The file first: a key that nobody has would be of no use.
    _write_once(file, head.encode() + private)
    try:
        made = changed_by_admin(
            admin,
            lambda channel: UserServiceStub(channel).CreateCredential,
            user_pb.CreateCredentialRequest(user=user, credential=wanted),
        ).credential
    except CallError as error:
        if not error.outcome_unknown:
            file.unlink()
        raise
    text = f"{file} proves that its owner is {user}: credential {made.credential_id}"
    output.done(text, {"user": user, **_row(made)})


@click.command("import-rocketmq")
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option("--user", help="The user of all keys. By default, each is of the user of its name.")
@admin_option
@output_option
def import_rocketmq(*, file: TextIO, user: str | None, admin: str, output: Output) -> None:
    """Let clients of RocketMQ sign with the keys of FILE, at the gateways of the cluster.

    FILE is plain_acl.yml, or has one ACCESS_KEY:SECRET_KEY a line; - is standard input. Admin keeps
    the secret keys sealed, and tells gateways only. Users have to be there: ariane access import
    creates those of plain_acl.yml.

    \b
    Examples:
      ariane credential import-rocketmq plain_acl.yml
      ariane credential import-rocketmq keys --user billing
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    keys = keys_of(text_of(file))
    if not is_loopback(admin) and tls_files(None) is None:
        raise CommandFailed(
            f"secret keys are not sent in plain text, and {admin} is another machine: give --tls-ca"
        )

    async def change() -> list[dict[str, Any]]:
        rows = []
        async with admin_channel(admin) as channel:
            stub = UserServiceStub(channel)
            for key in keys:
                request = user_pb.CreateCredentialRequest(
                    user=user or key.access_key,
                    credential=user_pb.Credential(
                        credential_id=key.access_key,
                        kind=user_pb.CREDENTIAL_KIND_ROCKETMQ_KEY,
                    ),
                    secret=key.secret_key,
                )
                made = await changed_through(admin, stub.CreateCredential, request)
                rows.append({"user": request.user, **_row(made.credential)})
        return rows

    output.rows(("user", *_COLUMNS), run_async(change()))


@click.command("list")
@click.argument("user")
@admin_option
@output_option
def list_credentials(*, user: str, admin: str, output: Output) -> None:
    """List the credentials of USER, oldest first.

    \b
    Example:
      ariane credential list billing -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    found = entries_of_admin(
        admin,
        lambda channel: UserServiceStub(channel).ListCredentials,
        user_pb.ListCredentialsRequest(user=user),
        lambda page: page.credentials,
    )
    output.rows(_COLUMNS, map(_row, found))


@click.command("delete")
@click.argument("user")
@click.argument("credential_id", metavar="CREDENTIAL")
@yes_option
@admin_option
@output_option
def delete(*, user: str, credential_id: str, yes: bool, admin: str, output: Output) -> None:
    """Delete CREDENTIAL of USER: within seconds, all that it opened ends everywhere.

    \b
    Example:
      ariane credential delete billing 4fd3a2c1b09e8d77 --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    confirm(f"Delete credential {credential_id} of {user}?", yes=yes)
    answer = changed_by_admin(
        admin,
        lambda channel: UserServiceStub(channel).DeleteCredential,
        user_pb.DeleteCredentialRequest(user=user, credential_id=credential_id),
    )
    if not answer.known:
        raise CommandFailed(f"{user} has no credential {credential_id}", ExitStatus.NOT_FOUND)
    row = {"user": user, "credential": credential_id, "deleted": True}
    output.done(f"credential {credential_id} of {user} is deleted", row)


def _row(credential: user_pb.Credential) -> dict[str, Any]:
    return {
        "credential": credential.credential_id,
        "kind": user_pb.CredentialKind.Name(credential.kind)
        .removeprefix("CREDENTIAL_KIND_")
        .lower()
        .replace("_", "-"),
        "description": credential.description,
        "created": moment_text(credential, "create_time"),
        "expires": moment_text(credential, "expire_time"),
    }


def _write_once(path: Path, content: bytes) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as opened:  # noqa: PTH123 - of a handle.
            opened.write(content)
    except FileExistsError:
        raise CommandFailed(
            f"{path} is there already; a key is never overwritten", ExitStatus.USAGE
        ) from None
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}") from None
