"""Opening a store, and making it whole."""
