"""``ariane dev``: a cluster on this machine, and what is said of it."""
