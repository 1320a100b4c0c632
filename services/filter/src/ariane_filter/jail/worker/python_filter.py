"""A filter from Python source: a function ``matches(message) -> bool``."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ariane_filter.jail.worker.judging import ModuleRefused, VerdictMissing
from ariane_record.errors import BodyDamaged, RecordCorrupted
from ariane_record.single.view import MessageView, iter_messages

FUNCTION = "matches"
_DEFERRED = CO_COROUTINE | CO_GENERATOR | CO_ASYNC_GENERATOR
"""Flags of functions that return no verdict: coroutines and generators."""


class PythonFilter:
    """Calls a function with one message after the other; about 2 us each besides the function."""

    def __init__(self, code: bytes) -> None:
        """Compile and run the source.

        Raises:
            ModuleRefused: It is not Python, raises, or has no plain function of that name.
        """
        module = ModuleType("uploaded_filter")
        module.__dict__["__builtins__"] = builtins
        try:
            exec(compile(code, "<filter>", "exec"), module.__dict__)  # noqa: S102 - in the jail
        except BaseException as error:
            raise ModuleRefused(describe(error)) from error
        function = getattr(module, FUNCTION, None)
        if not callable(function):
            raise ModuleRefused(f"it has no function {FUNCTION}(message)")
        flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
        if isinstance(flags, int) and flags & _DEFERRED:
            raise ModuleRefused(f"its function {FUNCTION} is async or a generator; it must return")
        self._matches: Callable[[MessageView], Any] = function

    def judge(self, records: bytes, sizes: NDArray[np.int32]) -> bytes:
        """A byte for each record.

        Raises:
            VerdictMissing: The function raised, or did not return a bool.
            RecordCorrupted: The bytes are not records, or a body that the function reads cannot be
                decompressed.
        """
        verdicts: list[Any] = []
        try:
            verdicts.extend(map(self._matches, iter_messages(records, sizes)))
        except RecordCorrupted:
            raise
        except BodyDamaged as error:
            # The parent checks this itself.
            raise RecordCorrupted(str(error), len(verdicts)) from error
        except BaseException as error:
            raise VerdictMissing(describe(error), len(verdicts)) from error
        if len(verdicts) < len(sizes):  # ``map`` takes it for its own end.
            raise VerdictMissing(f"{FUNCTION} raised StopIteration", len(verdicts))
        if set(map(type, verdicts)) - {bool}:
            position = next(i for i, verdict in enumerate(verdicts) if type(verdict) is not bool)
            kind = type(verdicts[position]).__name__
            raise VerdictMissing(f"{FUNCTION} returned {kind}, not bool", position)
        return bytes(verdicts)


def describe(error: BaseException) -> str:
    """An exception in one line: its type, its line in the filter, and its text."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<filter>":
            place = f" in line {trace.tb_lineno}"
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"SyntaxError in line {error.lineno}: {error.msg}"
    text = " ".join(str(error)[:500].split())
    return f"{type(error).__name__}{place}: {text}" if text else f"{type(error).__name__}{place}"
