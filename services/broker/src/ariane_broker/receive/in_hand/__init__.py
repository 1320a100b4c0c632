"""What groups have in hand of each queue: in the log first, and in memory as the log says."""
