"""Sending: from the application's message to the broker's answer."""
