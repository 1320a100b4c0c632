"""The store as the broker holds it: flushes, upkeep, states over the log."""
