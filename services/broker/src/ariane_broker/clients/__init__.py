"""Attached clients: who lives, what they want, what they are told."""
