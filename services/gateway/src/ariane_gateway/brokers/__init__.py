"""Brokers and name servers: routes, addresses, calls."""
