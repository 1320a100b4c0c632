"""Opening a store, and repairing it."""
