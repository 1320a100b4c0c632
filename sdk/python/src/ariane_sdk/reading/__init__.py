"""Reading by position, without a group."""
