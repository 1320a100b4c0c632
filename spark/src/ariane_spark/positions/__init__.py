"""Begin and end of a read in each queue, and its division into partitions."""
