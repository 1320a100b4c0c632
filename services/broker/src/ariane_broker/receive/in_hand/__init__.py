"""The unsettled messages of each group and queue: written to the log, then applied in memory."""
