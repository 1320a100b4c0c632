"""Parked records: where they wait, what they say, and which of them are delivered."""
