"""Channels, and the calls on them."""
