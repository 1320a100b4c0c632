"""``ariane group``: consumer groups."""
