"""Where in the queues a read begins and ends, and what of it falls to each partition."""
