"""From a checked request into the log."""
