"""Pulls on behalf of groups: the broker's answers without the messages that filters leave out."""
