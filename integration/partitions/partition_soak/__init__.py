"""A group of three brokers in network namespaces: faults by seed, and the log judged after each."""
