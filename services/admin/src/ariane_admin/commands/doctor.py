"""``ariane doctor``: what is wrong with the cluster, seen from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from ariane_admin.asking.cluster_doors import ClusterDoors
from ariane_admin.asking.connection import name_servers_option, run_async
from ariane_admin.doctor.cluster_facts import ClusterFacts, gather_facts
from ariane_admin.doctor.diagnosis import diagnose
from ariane_admin.doctor.findings import Finding, Severity
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, output_option
from ariane_record.control_characters import shown


@click.command()
@name_servers_option
@output_option
def doctor(*, name_servers: str, output: Output) -> int:
    """Diagnose the cluster from this machine, and say what to do.

    This asks every name server, connects to every address that a route can contain, and compares
    clocks, versions, names and subscriptions. Run it on a machine where clients run, as it checks
    what is reachable from there. The exit status is 1 if there is an error, and 3 if no name server
    answers.

    \b
    Examples:
      ariane doctor
      ariane doctor --name-servers 10.0.0.1:9876,10.0.0.2:9876 -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> ClusterFacts:
        async with ClusterDoors(name_servers) as doors:
            return await gather_facts(doors)

    facts = run_async(ask())
    findings = diagnose(facts)
    if output.for_programs:
        output.rows((), ({**asdict(one), "severity": one.severity.value} for one in findings))
    else:
        _tell(facts, findings)
    if all(one.error for one in facts.name_servers):
        return ExitStatus.UNREACHABLE
    wrong = any(each.severity is Severity.ERROR for each in findings)
    return ExitStatus.FAILED if wrong else ExitStatus.DONE


def _tell(facts: ClusterFacts, findings: Sequence[Finding]) -> None:
    """A line each, whole: tables wrap in narrow terminals."""
    for one in findings:
        line = f"{one.severity.value}: {one.subject}: {one.finding}; {one.advice}"
        click.echo(shown(line))
    if not findings:
        counted = (("name server", len(facts.name_servers)), ("broker", len(facts.brokers)))
        named = " and ".join(f"{count} {what}{'s' * (count != 1)}" for what, count in counted)
        click.echo(f"No problem found: {named} answer at their addresses.")
