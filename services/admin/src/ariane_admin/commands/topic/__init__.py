"""``ariane topic``: what topics there are, and how they lie on their brokers."""
