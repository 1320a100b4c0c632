"""Users, what they may do, and how every process is told."""
