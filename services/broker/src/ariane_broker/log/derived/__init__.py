"""State that follows from the records of the log; saved snapshots only spare reading them."""
