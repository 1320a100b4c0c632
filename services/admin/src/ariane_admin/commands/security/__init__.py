"""Commands about who may do what, and who did it."""
