"""The doctor: finds faults of a cluster."""
