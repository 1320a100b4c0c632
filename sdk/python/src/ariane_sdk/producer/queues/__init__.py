"""Which queue a message goes to."""
