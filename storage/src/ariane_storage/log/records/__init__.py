"""Vectors over the bytes of many records; they know no file."""
