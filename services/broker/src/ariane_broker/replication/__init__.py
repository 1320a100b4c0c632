"""Replication: the election of a primary, the copies of its log, and confirmation."""
