"""The jailed process: locks itself in, then loads a filter and judges batches."""
