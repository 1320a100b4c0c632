"""Looking at a closed store, and repairing it."""
