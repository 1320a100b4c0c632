"""``GroupService``, and the facts of a group."""
