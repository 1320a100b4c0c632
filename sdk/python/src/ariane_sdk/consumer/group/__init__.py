"""The members of a group, and the queues of each."""
