"""Taking messages in: checks, queue choice, and what puts them into batches."""
