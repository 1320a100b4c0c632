"""The data sink: writes rows to topics, also exactly once."""
