"""Flushing, retention, deleted topics."""
