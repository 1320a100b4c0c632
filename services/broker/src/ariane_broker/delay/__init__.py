"""Messages that are delivered later: parked in the log until they are due."""
