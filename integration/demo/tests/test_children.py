"""Children speak, and go when they are told or when something is wrong."""

import asyncio
from pathlib import Path

import pytest
from flight_demo.children import child
from flight_demo.errors import ChildFailed

ECHO = """
import sys
from flight_demo.children import say
say("ready")
for line in sys.stdin:
    say("heard", word=line.strip())
"""

FAIL = """
import sys
sys.exit("the engine is missing")
"""

RAISE = """
from flight_demo.children import perform
def work():
    raise ValueError('''reading failed: Traceback (most recent call last):
  File "reader.py", line 3, in read
a.b.Gone: nobody answers
''')
perform(work)
"""

STUBBORN = """
import signal, subprocess, sys, time
from flight_demo.children import say
signal.signal(signal.SIGTERM, signal.SIG_IGN)
program = "import time; print(flush=True); time.sleep(600)"
grandchild = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
grandchild.stdout.readline()
say("ready", grandchild=grandchild.pid)
time.sleep(600)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Make a module of a text."""

    def make(text):
        (tmp_path / "child_program.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        return "child_program"

    return make


def alive(pid):
    # Of a process that ended and was not collected yet the kernel keeps no command line.
    command_line = Path(f"/proc/{pid}/cmdline")
    return command_line.exists() and bool(command_line.read_bytes())


async def test_a_child_hears_and_answers(program, tmp_path):
    async with child("echo", program(ECHO), [], folder=tmp_path) as echo:
        assert (await echo.hear())["event"] == "ready"
        await echo.tell("go")
        assert await echo.hear() == {"event": "heard", "word": "go"}


async def test_a_child_that_fails_says_why(program, tmp_path):
    async with child("engine", program(FAIL), [], folder=tmp_path) as engine:
        with pytest.raises(ChildFailed, match="engine ended with status 1: the engine is missing"):
            await engine.hear()


async def test_an_error_in_a_child_comes_as_one_line(program, tmp_path):
    async with child("spark", program(RAISE), [], folder=tmp_path) as spark:
        with pytest.raises(ChildFailed) as caught:
            await spark.hear()
    assert str(caught.value) == "spark failed: ValueError: reading failed: a.b.Gone: nobody answers"


async def test_a_stubborn_child_goes_with_all_that_it_started(program, tmp_path, monkeypatch):
    monkeypatch.setattr("flight_demo.children._STOP_SECONDS", 0.3)
    async with child("mule", program(STUBBORN), [], folder=tmp_path) as mule:
        grandchild = (await mule.hear())["grandchild"]
        assert alive(grandchild)
    async with asyncio.timeout(60):
        while alive(grandchild):  # noqa: ASYNC110 - a process that dies tells nobody here
            await asyncio.sleep(0.02)
