"""Ctrl-C at every moment of a command."""

import signal
import subprocess
import sys

import pytest

from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.interruption import as_usual, interruptible_imports

DROPPED = """
import os, signal, weakref

class Kept:
    pass

kept = Kept()
dropped = weakref.ref(kept, lambda _: os.kill(os.getpid(), signal.SIGINT))
del kept
print("it went on")
"""
"""A module that is interrupted where Python drops errors, as in some places of its imports."""


def test_an_interruption_of_an_import_is_not_lost(tmp_path):
    (tmp_path / "dropped.py").write_text(DROPPED)
    program = (
        "from ariane_admin.terminal.interruption import interruptible_imports\n"
        "with interruptible_imports():\n"
        "    import dropped\n"
    )
    done = subprocess.run(
        (sys.executable, "-c", program), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (ExitStatus.INTERRUPTED, "", "")


def test_elsewhere_it_is_as_usual():
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with interruptible_imports():
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        with interruptible_imports():
            as_usual()
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible_imports():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
