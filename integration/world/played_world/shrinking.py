"""Which faults does a finding need? One after the other is left out, as long as it stays."""

from __future__ import annotations

import json
import os
from typing import Any

from played_world.fault import Fault
from played_world.one_process import play_plan_apart


def shrink(seed: int, scale: float) -> str:
    """The shortest plan that was found to show what a seed shows, as JSON for ``--plan``."""
    first = _play(seed, None, scale)
    plan = [Fault(*row) for row in first["plan"]]
    if first["outcome"] != "anomaly":
        return f"seed {seed} finds nothing"
    kind = _kind(first)
    place = 0
    while place < len(plan):
        shorter = plan[:place] + plan[place + 1 :]
        if kind in _kinds(_play(seed, shorter, scale)):
            plan = shorter
        else:
            place += 1
    return json.dumps({"seed": seed, "scale": scale, "finds": kind, "plan": plan})


def _play(seed: int, plan: list[Fault] | None, scale: float) -> dict[str, Any]:
    child, pipe = play_plan_apart(seed, plan, None, scale)
    with pipe:
        verdict: dict[str, Any] = json.loads(pipe.read() or '{"outcome": "died", "words": []}')
    os.waitpid(child, 0)
    return verdict


def _kind(verdict: dict[str, Any]) -> str:
    return str(verdict["words"][0]).partition(":")[0]


def _kinds(verdict: dict[str, Any]) -> set[str]:
    return {str(word).partition(":")[0] for word in verdict["words"]}
