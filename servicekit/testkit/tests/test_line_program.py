"""Programs that are spoken to by lines of JSON."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from ariane_testkit.programs.line_program import LineProgram, Refused

PROGRAM = """
import json, sys
held = None
for line in sys.stdin:
    asked = json.loads(line)
    if asked["do"] == "hold":
        held = asked["call"]
        continue
    if asked["do"] == "die":
        sys.exit(1)
    said = {"call": asked["call"], "ok": [asked["do"], asked["word"]]}
    if asked["do"] == "fail":
        error = {"reason": "NO", "text": "not today", "outcome_unknown": True}
        said = {"call": asked["call"], "error": error}
    print(json.dumps(said), flush=True)
    if held is not None:
        print(json.dumps({"call": held, "ok": "late"}), flush=True)
        held = None
"""


def test_answers_find_who_asked_and_refusals_and_ends_are_told():
    with (
        LineProgram("echo", [sys.executable, "-c", PROGRAM], words={"word": "usual"}) as program,
        ThreadPoolExecutor() as pool,
    ):
        held = pool.submit(program.ask, "hold")
        while not program._asked:
            pass
        assert program.ask("say") == ["say", "usual"]
        assert held.result(60) == "late"
        assert program.ask("say", word="own") == ["say", "own"]
        with pytest.raises(Refused, match="echo: not today") as refused:
            program.ask("fail")
        assert (refused.value.reason, refused.value.outcome_unknown) == ("NO", True)
        with pytest.raises(ConnectionError, match="echo has ended"):
            program.ask("die")
        with pytest.raises(ConnectionError, match="echo has ended"):
            program.ask("say")
