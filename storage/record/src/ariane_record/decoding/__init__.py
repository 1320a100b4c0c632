"""Blocks of records become columns."""
