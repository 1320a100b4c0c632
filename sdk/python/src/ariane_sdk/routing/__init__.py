"""Which brokers there are, and where the queues of a topic are."""
