"""Receiving without owning queues: each message has a receipt and is settled by itself."""
