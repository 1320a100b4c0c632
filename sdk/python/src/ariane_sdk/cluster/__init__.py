"""The cluster as operators see it."""
