"""Calls to name servers and brokers."""
