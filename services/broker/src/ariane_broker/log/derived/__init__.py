"""State that is derived from the records of the log; snapshots only save reading them."""
