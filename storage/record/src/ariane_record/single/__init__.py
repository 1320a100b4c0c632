"""One record at a time."""
