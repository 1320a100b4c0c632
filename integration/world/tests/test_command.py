"""The command keeps what came of each seed."""

import json
import os
import sys

from played_world import command

WORDS = 2000
TELL = f"""
import json, sys
words = ["a finding of seventy letters, which no group of the world has ever met"] * {WORDS}
verdict = {{"seed": int(sys.argv[1]), "outcome": "anomaly", "words": words}}
print(json.dumps({{**verdict, "met": {{}}, "changes": {{}}, "repeats": {{}}}}))
"""


def played_apart(seed, *_):
    reading, writing = os.pipe()
    told = [(os.POSIX_SPAWN_DUP2, writing, 1)]
    command_line = (sys.executable, "-c", TELL, str(seed))
    child = os.posix_spawn(sys.executable, command_line, os.environ, file_actions=told)
    os.close(writing)
    return child, os.fdopen(reading)


def test_verdicts_that_are_longer_than_a_pipe_are_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "freeze_addresses", lambda: None)
    monkeypatch.setattr(command, "play_apart", played_apart)
    ledger = tmp_path / "ledger.jsonl"

    assert command.main(["--seeds", "1-3", "--jobs", "2", "--ledger", str(ledger)]) == 1

    verdicts = list(map(json.loads, ledger.read_text().splitlines()))
    assert sorted(verdict["seed"] for verdict in verdicts) == [1, 2, 3]
    assert all(len(verdict["words"]) == WORDS for verdict in verdicts)
    assert "3 anomaly" in capsys.readouterr().out
