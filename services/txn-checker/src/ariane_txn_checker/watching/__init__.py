"""Watching one broker: lists its half messages, and has producers asked about them."""
