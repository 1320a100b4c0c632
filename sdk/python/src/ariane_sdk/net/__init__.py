"""Calls and streams to services: connections, errors, repeats."""
