"""Plays seeds with one planted fault after the other, and tells which seed has found it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

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
        ledger = LEDGER.with_name(f"planted-{name}.jsonl")
        ledger.unlink(missing_ok=True)
        subprocess.run(
            (
                *(sys.executable, str(Path(__file__).parents[2]), *options),
                *("--plant", name, "--until-found", "--again"),
                *("--seconds", str(seconds), "--ledger", str(ledger)),
            ),
            stdout=subprocess.DEVNULL,
            check=False,
        )
        rows = [json.loads(line) for line in _lines(ledger)]
        ledger.unlink(missing_ok=True)
        found = next((row for row in rows if row["outcome"] == "anomaly"), None)
        missed += found is None
        told = {
            "name": name,
            "seeds": len(rows),
            "seconds": round(time.monotonic() - begin_s),
            "cpu_s": round(sum(row.get("cpu_s", 0.0) for row in rows)),
            "seed": None if found is None else found["seed"],
            "word": "" if found is None else found["words"][0][:160],
        }
        with LEDGER.open("a") as file:
            file.write(json.dumps(told) + "\n")
        outcome = f"seed {told['seed']}: {told['word']}" if found else "NOT FOUND"
        print(f"{name}: {outcome} ({told['seeds']} seeds, {told['seconds']} s)", flush=True)
    return missed


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
