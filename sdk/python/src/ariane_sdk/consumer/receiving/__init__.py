"""Receiving without owning queues: messages with receipts, settled one by one."""
