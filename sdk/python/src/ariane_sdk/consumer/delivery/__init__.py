"""Delivery of messages from a queue's window to the application; the return of failed messages."""
