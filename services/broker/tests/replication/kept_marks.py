"""Marks of stores without threads or files."""

from __future__ import annotations

from concurrent.futures import Executor, Future

from ariane_broker.replication.store_mark import StoreMark


class Kept:
    """A file."""

    def __init__(self):
        self.state = None

    def load(self):
        return self.state

    def save(self, state):
        self.state = state


class AtOnce(Executor):
    """Works in the thread that asks."""

    def submit(self, fn, /, *args, **kwargs):
        done = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except OSError as error:
            done.set_exception(error)
        return done


def mark_of(file, broker_id):
    """The mark that a process finds in its store."""
    mark = StoreMark(file, broker_id, AtOnce())
    mark.load()
    return mark
