"""Consuming as a member of a group."""
