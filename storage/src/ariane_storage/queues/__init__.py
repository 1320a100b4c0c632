"""Consume queues: the places of the messages of each message queue."""
