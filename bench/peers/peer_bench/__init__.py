"""Measures ourselves beside other message queues: pairs in turn, verified, with limits beside."""
