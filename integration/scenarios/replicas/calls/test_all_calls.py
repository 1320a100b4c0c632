"""Every call of every client at once through a kill, a freeze, a switchover and a cut.

It prints a table: for each call and fault the longest time without a success, and how many failed.
Those are figures. The verdict is that each call succeeds again within a generous bound, and that no
acknowledged message is missing.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import make_url

from ariane_admin.cli import main as ariane
from ariane_sdk import ClusterClient, QueueReader
from ariane_sdk.errors import ArianeError, RouteNotFound
from ariane_testkit.postgresql import PostgresqlUnavailable, running_postgresql
from integration.scenarios.replicas.calls.all_callers import (
    REQUESTS,
    TOPIC,
    Callers,
    bodies_in,
    until_all,
)
from integration.scenarios.replicas.calls.call_table import CallTable

INTEGRATION = Path(__file__).parents[3]
sys.path += [str(INTEGRATION / folder) for folder in ("partitions", "soak", "faults", "clients")]

LEASE_S = 5.0
FAULT_S = 25.0
"""How long a fault lasts: much longer than a replica needs to take over."""

BOUND_S = 120.0
"""Every call succeeds again within this time, also on a machine that is busy with other things."""


@asynccontextmanager
async def running_group(folder):
    """Three brokers of one name, on a network that can be cut."""
    from partition_soak.door import Door  # noqa: PLC0415 - see the path.
    from partition_soak.group import BROKERS, NAME_SERVER, Group  # noqa: PLC0415
    from partition_soak.network import DATABASE, Network  # noqa: PLC0415

    network = Network((*BROKERS, NAME_SERVER))
    with running_postgresql() as url:
        inside = make_url(url)
        try:
            await asyncio.to_thread(network.make)
            async with Door(network.address(DATABASE), "127.0.0.1", inside.port or 0) as port:
                outside = inside.set(host=network.address(DATABASE), port=port)
                reached = outside.render_as_string(hide_password=False)
                group = Group(folder, network, reached, power_losses=False, lease_s=LEASE_S)
                try:
                    await group.start()
                    yield group
                finally:
                    await group.stop()
        finally:
            await asyncio.to_thread(network.remove)


async def hand_over(group):
    """Have another broker become the primary, as planned."""
    state = await group.heal()
    target = next(i for i in state.replica_set.in_sync_broker_ids if i != state.broker_id)
    words = ("broker", "ha", "switchover", "broker-a", "--to", str(target), "--yes")
    servers = ("--name-servers", group.name_servers)
    assert await asyncio.to_thread(ariane, [*words, *servers]) == 0


def faults_of(group):
    """What happens to the primary, in this order."""
    from partition_soak.faults import Fault, FaultKind  # noqa: PLC0415 - see the path.

    def suffer(kind):
        return lambda: group.suffer(Fault(kind, 0.0, FAULT_S, None, 0))

    return {
        "kill": suffer(FaultKind.KILL),
        "freeze": suffer(FaultKind.PAUSE),
        "switchover": lambda: hand_over(group),
        "cut": suffer(FaultKind.ISOLATED),
    }


def languages_here():
    """The languages whose toolchains this machine has, built."""
    from languages import COMMANDS, build, missing  # noqa: PLC0415 - see the path.

    here = [each for each in COMMANDS if each != "python" and not missing(each)]
    for language in here:
        build(language)
    return here


def connected(stack, language, name_servers):
    """The program of a language."""
    from languages import Worker  # noqa: PLC0415 - see the path.

    worker = stack.enter_context(Worker(language, try_ms=3000))  # As by default.
    worker.ask("connect", name_servers=[name_servers])
    worker.ask("transactions", group=f"{language}-tellers", topic=TOPIC)
    return worker


async def routed_after_s(group, begin_s):
    """When name servers have told of another primary: no client can know it sooner."""
    async with ClusterClient(group.name_servers) as client:
        before = (await client.route(TOPIC)).primary_addresses["broker-a"]
        async with asyncio.timeout(BOUND_S):
            while True:
                with suppress(RouteNotFound):
                    now = (await client.route(TOPIC)).primary_addresses.get("broker-a", before)
                    if now != before:
                        return time.monotonic() - begin_s
                await asyncio.sleep(0.1)


async def suffer_all(group, table):
    """Let all faults happen, one after the other; each is over before the next.

    Returns:
        When the route of each named another primary, in seconds.
    """
    told = {}
    await table.wait_for_all(time.monotonic(), BOUND_S)
    for name, suffer in faults_of(group).items():
        begin_s = time.monotonic()
        routed = asyncio.create_task(routed_after_s(group, begin_s))
        await suffer()
        await group.heal()
        await table.wait_for_all(time.monotonic(), BOUND_S)
        table.note(name, begin_s, time.monotonic())
        told[name] = await routed
    return told


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
async def test_every_call_goes_on_at_who_has_taken_over(tmp_path, capsys):
    from languages import Refused  # noqa: PLC0415 - see the path.
    from partition_soak.network import why_not  # noqa: PLC0415 - see the path.

    if reason := why_not():
        pytest.skip(reason)
    languages = await asyncio.to_thread(languages_here)
    table = CallTable((ArianeError, Refused))
    try:
        async with running_group(tmp_path) as group, AsyncExitStack() as stack:
            async with ClusterClient(group.name_servers) as client:
                for topic in (TOPIC, REQUESTS):
                    await client.create_topic(topic, queue_count=4)
            workers = [connected(stack, each, group.name_servers) for each in languages]
            async with asyncio.TaskGroup() as tasks:
                callers = Callers(group.name_servers, table, tasks)
                await callers.begin(stack)
                for worker in workers:
                    callers.language(worker)
                callers.run(callers.spark(tmp_path))
                routed_s = await suffer_all(group, table)
                callers.end()
            async with QueueReader(group.name_servers) as reader:
                missing = callers.stored - await bodies_in(reader)
            unseen = await until_all(callers.stored, callers.pushed, BOUND_S)
    except PostgresqlUnavailable as reason:
        pytest.skip(str(reason))
    with capsys.disabled():
        routed = ", ".join(f"{fault} {after_s:.1f} s" for fault, after_s in routed_s.items())
        today, load = datetime.now(UTC).date(), os.getloadavg()[0]
        print(f"\n{today}, load {load:.0f}; routed to another primary after: {routed}")
        print(f"longest time without a success, how many failed of all\n\n{table}\n")
        for (name, fault), cell in table.cells.items():
            if cell.why:
                print(f"{fault}: {name}: {cell.why[:200]}")
        print(f"{len(callers.stored)} messages acknowledged, {len(missing)} of them missing")
    assert len(callers.stored) > 100
    assert not missing
    assert not unseen
    late = {place: cell for place, cell in table.cells.items() if cell.wait_s > BOUND_S}
    assert not late
