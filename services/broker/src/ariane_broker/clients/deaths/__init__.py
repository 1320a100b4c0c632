"""Consumers that die of a message: which one it was, and what becomes of it."""
