"""Requests of clients and operators about groups: offsets, locks of queues, deletion of a group."""
