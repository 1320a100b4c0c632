"""Calls of operators to a cluster: topics, groups, offsets, dead letters, sinks."""
