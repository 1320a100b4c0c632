"""How a process treats calls without the rights that they need."""

from __future__ import annotations

import enum


class AccessMode(enum.StrEnum):
    """How a process treats calls without the rights that they need."""

    OPEN = "open"
    """They run; nobody is asked who he is."""
    LEARN = "learn"
    """They run; what would be refused is counted and logged."""
    CLOSED = "closed"
    """They are refused."""
