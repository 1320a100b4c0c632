"""Copies of the log: its bytes handed on and taken in as they lie, and cut where two part."""
