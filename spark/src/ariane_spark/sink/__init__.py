"""The data sink: rows into topics, also exactly once."""
