"""Blocks of records are checked, made ready and appended."""
