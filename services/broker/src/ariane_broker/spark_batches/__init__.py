"""Batch transactions: staged by many tasks, committed once, visible all or none."""
