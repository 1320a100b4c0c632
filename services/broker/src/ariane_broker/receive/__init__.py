"""Receiving: messages are handed out for a while, and settled one by one, without owning queues."""
