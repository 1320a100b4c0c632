"""Messages become batches of records."""
