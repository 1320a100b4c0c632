"""Plays seeds with one planted fault after the other, and tells which seed has found it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from played_world.planted.planted_faults import PLANTED

LEDGER: Final = Path("out/planted.jsonl")


def play_planted(names: Sequence[str], options: Sequence[str], seconds: float) -> int:
    """Play until each fault is found, or its time is over; return how many were not.

    Args:
        names: Which of ``PLANTED``; all if empty.
        options: Of the command, for each fault: seeds, scale, jobs.
        seconds: No seed is begun for a fault after this time.
    """
    missed = 0
    LEDGER.parent.mkdir(parents=True, exist_ok=True)
    for name in names or PLANTED:
        begin_s = time.monotonic()
        planted = ("--plant", name, "--until-found", "--seconds", str(seconds))
        rows = _rows(name, options, planted)
        found = next((row for row in rows if row["outcome"] == "anomaly"), None)
        took_s = time.monotonic() - begin_s
        # What a seed finds without the fault, too, shows nothing of it.
        sound = [] if found is None else _rows(name, options, ("--seeds", str(found["seed"])))
        is_shown = bool(sound) and sound[0]["outcome"] != "anomaly"
        missed += not is_shown
        told = {
            "name": name,
            "seeds": len(rows),
            "seconds": round(took_s),
            "cpu_s": round(sum(row.get("cpu_s", 0.0) for row in rows)),
            "seed": None if found is None else found["seed"],
            "word": "" if found is None else found["words"][0][:160],
            "is_shown": is_shown,
        }
        with LEDGER.open("a") as file:
            file.write(json.dumps(told) + "\n")
        outcome = f"seed {told['seed']}: {told['word']}" if found else "NOT FOUND"
        if found and not is_shown:
            outcome += " -- SO IT IS WITHOUT THE FAULT"
        print(f"{name}: {outcome} ({told['seeds']} seeds, {told['seconds']} s)", flush=True)
    return missed


def _rows(name: str, options: Sequence[str], more: Sequence[str]) -> list[dict[str, Any]]:
    """Play seeds in a process of their own; return their verdicts."""
    ledger = LEDGER.with_name(f"planted-{name}.jsonl")
    ledger.unlink(missing_ok=True)
    command = (sys.executable, str(Path(__file__).parents[2]), *options, *more)
    subprocess.run(
        (*command, "--again", "--ledger", str(ledger)), stdout=subprocess.DEVNULL, check=False
    )
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    ledger.unlink(missing_ok=True)
    return [json.loads(line) for line in lines]
