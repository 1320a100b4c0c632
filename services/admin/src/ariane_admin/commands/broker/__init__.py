"""``ariane broker``: brokers, and those with replicas."""
