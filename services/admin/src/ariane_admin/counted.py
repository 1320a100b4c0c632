"""Counts of things in texts: the house's words, under this member's name."""

from __future__ import annotations

from ariane_record.counted import are, counted

__all__ = ["are", "counted"]
