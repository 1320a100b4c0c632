"""Programs of the peers: fetched once, and kept below ``.cache``."""
