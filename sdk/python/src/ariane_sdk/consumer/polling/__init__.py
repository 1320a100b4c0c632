"""Queues whose messages the application fetches itself."""
