"""``ariane dev``: a cluster on this machine, and how it is described."""
