"""Which members a group has: attached ones, absent ones, and those that come back."""
