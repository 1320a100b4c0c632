"""Users, what they may do, and how every process learns of it."""
