"""Half messages, their ends, and the checks of brokers."""
