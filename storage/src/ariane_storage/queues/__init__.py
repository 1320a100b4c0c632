"""Consume queues: where the messages of each message queue lie."""
