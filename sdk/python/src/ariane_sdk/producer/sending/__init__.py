"""Batches on their way to brokers: calls, outcomes, repeats."""
