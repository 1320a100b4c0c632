"""``ariane credential``: keys by which users prove who they are."""

from __future__ import annotations

import base64
import os
import secrets
from pathlib import Path

import click

from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.output import Output, output_option
from ariane_servicekit.security.key_file import CREDENTIAL_ID
from ariane_servicekit.security.member_names import is_user_word


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--user", required=True, help="The user that the key belongs to.")
@click.option(
    "--id",
    "credential_id",
    help="Id of the credential, unique in the cluster. By default, one is drawn.",
)
@output_option
def create(*, file: str, user: str, credential_id: str | None, output: Output) -> None:
    """Write a new private key of a user to FILE, and print the public one.

    The private key stays in FILE. Services learn the public one from the file of their setting
    login_keys; append the line there.

    \b
    Examples:
      ariane credential create anna.key --user anna >> login-keys
      ARIANE_CREDENTIALS=anna.key ariane topic list
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    # Loading it takes longer than all help.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PrivateKey,
    )

    if not is_user_word(user):
        raise click.BadParameter("user: letters, digits, '_' and '-'; at most 120")
    if credential_id is None:
        credential_id = secrets.token_hex(8)
    if not CREDENTIAL_ID.fullmatch(credential_id):
        raise click.BadParameter("id: letters, digits, '_' and '-'; at most 64")
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    head = f"Private key of ArianeMQ. Keep it secret.\nuser: {user}\ncredential: {credential_id}\n"
    _write_once(Path(file), head.encode() + private)
    public = base64.b64encode(key.public_key().public_bytes_raw()).decode()
    row = {"user": user, "credential": credential_id, "public_key": public}
    output.done(f"{user} {credential_id} {public}", row)


def _write_once(path: Path, content: bytes) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as opened:  # noqa: PTH123 - of a handle.
            opened.write(content)
    except FileExistsError:
        raise CommandFailed(f"{path} is there already; a key is never overwritten") from None
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}") from None
