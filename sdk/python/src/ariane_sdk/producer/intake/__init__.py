"""Taking messages in: checks, queue choice, and adding to batches."""
