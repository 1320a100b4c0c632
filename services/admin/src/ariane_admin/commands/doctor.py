"""``ariane doctor``: what is wrong with the cluster, seen from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from ariane_admin.asking.cluster_doors import ClusterDoors
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.options import question_options
from ariane_admin.counted import counted
from ariane_admin.doctor.cluster_facts import ClusterFacts, gather_facts
from ariane_admin.doctor.diagnosis import diagnose
from ariane_admin.doctor.findings import Finding, Severity
from ariane_admin.doctor.host_facts import gather_host_facts
from ariane_admin.doctor.host_rules import diagnose_host, flush_times_ms
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output
from ariane_record.control_characters import shown


@click.command()
@click.option(
    "--host",
    is_flag=False,
    flag_value=".",
    metavar="[FOLDER]",
    type=click.Path(exists=True, file_okay=False),
    help="Examine this machine instead, for a store in FOLDER or here.",
)
@question_options
def doctor(*, host: str | None, name_servers: str, output: Output) -> int:
    """Diagnose the cluster from this machine, and say what to do.

    This asks every name server, connects to every address that a route can contain, and compares
    clocks, versions, names and subscriptions. Run it on a machine where clients run, as it checks
    what is reachable from there. The exit status is 1 if there is an error, and 3 if no name server
    answers.

    With --host, it asks nobody, and looks at the file system, disk, memory, limits and clock of
    this machine; it writes for a moment into a file without a name. Run it as the user of the
    broker.

    \b
    Examples:
      ariane doctor
      ariane doctor --host /var/lib/ariane/store
      ariane doctor --name-servers 10.0.0.1:9876,10.0.0.2:9876 -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if host is not None:
        return _examine_host(Path(host), output)

    async def ask() -> ClusterFacts:
        async with ClusterDoors(name_servers) as doors:
            return await gather_facts(doors)

    facts = run_async(ask())
    findings = diagnose(facts)
    _write(findings, output, _reached(facts))
    if all(one.error for one in facts.name_servers):
        return ExitStatus.UNREACHABLE
    return _status(findings)


def _examine_host(path: Path, output: Output) -> int:
    facts = gather_host_facts(path)
    findings = diagnose_host(facts)
    good = f"No problem found on this machine for {facts.path} ({facts.file_system})"
    if facts.flush_ms:
        usual, slow = flush_times_ms(facts)
        good += f"; a flush takes {usual:.2f} ms, and {slow:.2f} ms at most"
    _write(findings, output, f"{good}.")
    return _status(findings)


def _status(findings: Sequence[Finding]) -> ExitStatus:
    wrong = any(each.severity is Severity.ERROR for each in findings)
    return ExitStatus.FAILED if wrong else ExitStatus.DONE


def _write(findings: Sequence[Finding], output: Output, if_none: str) -> None:
    """A line each, whole: tables wrap in narrow terminals."""
    if output.for_programs:
        output.rows((), ({**asdict(one), "severity": one.severity.value} for one in findings))
        return
    for one in findings:
        line = f"{one.severity.value}: {one.subject}: {one.finding}; {one.advice}"
        click.echo(shown(line))
    if not findings:
        click.echo(if_none)


def _reached(facts: ClusterFacts) -> str:
    servers = counted(len(facts.name_servers), "name server")
    named = f"{servers} and {counted(len(facts.brokers), 'broker')}"
    return f"No problem found: {named} answer at their addresses."
