"""At what a program was when a fault met it; and the table of faults and steps."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from played_world.programs.stage import Role, Stage

BROKER_STEPS: Final = ("down", "starting", "stopping", "flushing", "serving", "primary", "replica")
PRIMARY: Final = "primary"
REPLICA: Final = "replica"
SECOND_REPLICA: Final = "second replica"
FORMER: Final = "former primary"
PARTS: Final = (PRIMARY, REPLICA, SECOND_REPLICA, FORMER)
"""Parts that brokers have in a set. Faults may name one: they befall whoever has it at that time,
or who was the primary when that one was befallen last."""

OTHER_STEPS: Final = ("down", "starting", "stopping", "serving")
STEPS_OF: Final = {
    "broker": BROKER_STEPS,
    "name server": OTHER_STEPS,
    "checker": OTHER_STEPS,
    "client": ("down", "running"),
}
"""Steps by the kind of a program: a broker in a set is primary or replica where it would serve."""


def set_row(stage: Stage) -> dict[str, Any] | None:
    """The row of the replica set, as it is in the database; None without a set."""
    path = Path(stage.scratch) / "set.db"
    if not path.exists():
        return None
    with sqlite3.connect(path) as database:
        try:
            row = database.execute("SELECT document FROM replica_set").fetchone()
        except sqlite3.OperationalError:
            return None  # Not made yet.
    return None if row is None else json.loads(row[0])


def id_in_set(role: Role) -> int:
    """The broker id of a broker."""
    return int(role.name.rpartition("-")[2]) - 1


def resolved(stage: Stage, name: str) -> Role | None:
    """The role of a name, which may be that of a part in a set, as it is divided now.

    Returns:
        None for a part that nobody has, such as that of the primary during an election.
    """
    if name not in PARTS:
        return stage.roles[name]
    if name == FORMER:
        return stage.former
    row = set_row(stage)
    if row is None:
        return None
    primary_id = row.get("primary_id")
    brokers = stage.of_kind("broker")
    if name == PRIMARY:
        stage.former = next((one for one in brokers if id_in_set(one) == primary_id), None)
        return stage.former
    replicas = [one for one in brokers if id_in_set(one) != primary_id]
    return replicas[(REPLICA, SECOND_REPLICA).index(name)]


def step_of(stage: Stage, role: Role) -> str:
    """What a program is at now."""
    process, service = role.process, role.service
    row = set_row(stage) if role.kind == "broker" else None
    if process is None or process.is_dead:
        step = "down"
    elif role.kind not in STEPS_OF or role.kind == "client":
        step = "running"
    elif service.stop is not None and service.stop.requested:
        step = "stopping"
    elif not service.is_serving:
        step = "starting"
    elif process.is_at_disk:
        step = "flushing"
    elif row is None:
        step = "serving"
    else:
        step = "primary" if row.get("primary_id") == id_in_set(role) else "replica"
    return step


def table(met: Counter[str], kinds: Iterable[tuple[str, frozenset[str]]]) -> list[str]:
    """Lines of a table: how often each fault met each step of each kind of program.

    Args:
        met: Counts by "fault/kind of program/step".
        kinds: Each fault with the kinds of programs that it may befall.
    """
    lines = [" " * 29 + " ".join(f"{step:>8}" for step in (*BROKER_STEPS, "running"))]
    empty: list[str] = []
    for fault, befallen in kinds:
        for kind in sorted(befallen):
            steps = STEPS_OF[kind]
            counts = {step: met[f"{fault}/{kind}/{step}"] for step in steps}
            cells = (
                f"{counts[step] or '-':>8}" if step in counts else " " * 8
                for step in (*BROKER_STEPS, "running")
            )
            lines.append(f"  {fault:<15} {kind:<11} {' '.join(cells)}")
            unmet = [step for step in steps if not counts[step]]
            if unmet:
                empty.append(f"not met: {fault} of a {kind} {', '.join(unmet)}")
    return lines + empty
