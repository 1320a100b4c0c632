"""Handing messages out: what is chosen for a client, and who waits for something to come."""
