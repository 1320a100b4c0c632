"""Checks, prepares and appends blocks of records."""
