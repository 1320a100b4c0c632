"""``ariane tls``: certificates of a cluster, in a folder of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.output import Output, output_option
from ariane_servicekit.security.caller import MemberKind
from ariane_servicekit.security.tls.certificate_folder import (
    AUTHORITIES,
    CertificateFolder,
    CertificateFolderRefused,
    CertificateRow,
    certificate_rows,
)
from ariane_servicekit.security.tls.member_names import SCHEME, is_user_word, is_word, user_uri

_DAYS = 365
_WITHIN_DAYS = 30
_KINDS = ", ".join(kind.value for kind in MemberKind)
_COLUMNS = ("file", "name", "hosts", "ends", "days_left", "fingerprint")

folder_argument = click.argument("folder", type=click.Path(file_okay=False))
days_option = click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=_DAYS,
    show_default=True,
    help="How long new certificates hold.",
)


def _word(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if not is_word(value):
        raise click.BadParameter("letters, digits, '.', '_' and '-'; at most 127")
    return value


def _users(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    del context, parameter
    if not all(map(is_user_word, values)):
        raise click.BadParameter("letters, digits, '_' and '-'; at most 120")
    return values


def _members(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, list[str]]:
    """Hosts by ``KIND/NAME``."""
    members: dict[str, list[str]] = {}
    for value in values:
        member, equals, hosts = value.partition("=")
        kind, _, name = member.partition("/")
        listed = [host.strip() for host in hosts.split(",") if host.strip()]
        if kind not in {each.value for each in MemberKind} or not is_word(name):
            raise click.BadParameter(f"{value!r}: expected KIND/NAME=HOST,...; kinds are {_KINDS}")
        if not equals or not listed:
            raise click.BadParameter(f"{value!r}: the host names are missing: {member}=HOST,...")
        members[member] = listed
    return members


@click.command()
@folder_argument
@click.option("--cluster", required=True, callback=_word, help="Name of the cluster.")
@click.option(
    "--member",
    "members",
    multiple=True,
    callback=_members,
    metavar="KIND/NAME=HOST,...",
    help=f"A process, and the host names and addresses that others reach it by. Kinds: {_KINDS}."
    " May be repeated.",
)
@click.option(
    "--user",
    "users",
    multiple=True,
    callback=_users,
    help="A user who proves with a certificate who he is; the first one is the first super user."
    " May be repeated.",
)
@days_option
@output_option
def init(
    *,
    folder: str,
    cluster: str,
    members: dict[str, list[str]],
    users: tuple[str, ...],
    days: int,
    output: Output,
) -> None:
    """Make authorities and certificates of a cluster in FOLDER; what is there is kept.

    Call it again to add members and users.

    \b
    Examples:
      ariane tls init ./certificates --cluster main --user anna --member namesrv/n1=10.0.0.1
      ariane tls init ./certificates --cluster main --member broker/b-0=b-0.example.com,10.0.0.2
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    wanted = {f"{SCHEME}{cluster}/{member}": hosts for member, hosts in members.items()}
    wanted |= {user_uri(cluster, user): [] for user in users}
    with _refusals_as_failures():
        kept = CertificateFolder(Path(folder))
        made = kept.make_authorities(cluster)
        known = {row.uri for row in kept.rows()}
        made += [kept.sign(uri, hosts, days) for uri, hosts in wanted.items() if uri not in known]
        rows = [_row(row) for row in kept.rows() if row.file in made]
    if output.for_programs:
        output.rows(_COLUMNS, rows)
        return
    output.rows(("file", "name", "hosts", "ends"), rows)
    click.echo(
        f"\n{len(made)} new in {folder}. Keep members.key and users.key away from machines that"
        " serve; a service needs members.pem, users.pem, its own certificate and its own key."
    )


@click.command()
@click.argument("path", type=click.Path(exists=True, readable=True))
@output_option
def show(*, path: str, output: Output) -> None:
    """List the certificates in PATH, a folder of ariane tls or a file, and when they end.

    \b
    Examples:
      ariane tls show ./certificates
      ariane tls show ./certificates/broker-b-0.pem -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    with _refusals_as_failures():
        place = Path(path)
        if place.is_dir():
            found = list(CertificateFolder(place).rows())
        else:
            found = list(certificate_rows(place.name, place.read_bytes()))
    output.rows(_COLUMNS, [_row(row) for row in found])


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--within",
    "within_days",
    type=click.IntRange(0, 3650),
    default=_WITHIN_DAYS,
    show_default=True,
    help="Renew those that end within so many days.",
)
@click.option("--all", "every", is_flag=True, help="Renew all, whenever they end.")
@days_option
@click.option(
    "--authority",
    type=click.Choice(AUTHORITIES),
    help="Make a new authority instead, trusted beside the old one. Hand out its .pem file to"
    " everybody, then renew.",
)
@click.option(
    "--drop-old",
    is_flag=True,
    help="Trust the newest authorities only, once all certificates of old ones are renewed.",
)
@output_option
def renew(
    *,
    folder: str,
    within_days: int,
    every: bool,
    days: int,
    authority: str | None,
    drop_old: bool,
    output: Output,
) -> None:
    """Renew certificates in FOLDER that end soon, or that an old authority has signed.

    Services and clients read files again when they change; nothing is restarted.

    \b
    Examples:
      ariane tls renew ./certificates
      ariane tls renew ./certificates --authority members   then renew, then --drop-old
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if drop_old and authority:
        raise click.UsageError("--authority and --drop-old are two steps")
    kept = CertificateFolder(Path(folder))
    with _refusals_as_failures():
        if authority:
            kept.replace_authority(authority)
            changed = [f"{authority}.pem"]
        elif drop_old:
            changed = kept.drop_old_authorities()
        else:
            within = None if every else timedelta(days=within_days)
            changed = kept.renew(days=days, within=within)
        rows = [_row(row) for row in kept.rows() if row.file in changed]
    if rows or output.for_programs:
        output.rows(_COLUMNS, rows)
    else:
        click.echo("Nothing to renew.")


@contextmanager
def _refusals_as_failures() -> Iterator[None]:
    try:
        yield
    except CertificateFolderRefused as refused:
        raise CommandFailed(str(refused)) from None


def _row(row: CertificateRow) -> dict[str, object]:
    return {
        "file": row.file,
        "name": row.uri,
        "hosts": ", ".join(row.hosts),
        "ends": row.ends.strftime("%Y-%m-%d %H:%M"),
        "days_left": row.left(datetime.now(UTC)).days,
        "fingerprint": row.fingerprint,
    }
