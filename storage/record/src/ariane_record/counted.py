"""Counts of things in texts, as people say them."""

from __future__ import annotations


def counted(count: int, thing: str) -> str:
    """A count with its thing: ``1 broker``, ``1,204 messages``."""
    return f"{count:,} {thing}{'s' * (count != 1)}"


def are(count: int) -> str:
    """The verb for a count of things: ``is`` or ``are``."""
    return "is" if count == 1 else "are"
