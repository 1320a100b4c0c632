"""Parked records: their queues, their contents, and which of them are delivered."""
