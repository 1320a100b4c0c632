"""``GroupService``, and what is told of a group."""
