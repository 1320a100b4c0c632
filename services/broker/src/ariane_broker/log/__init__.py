"""The broker's access to its store: appends, flushes, upkeep, and states over the log."""
