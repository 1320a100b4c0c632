"""Messages become blocks of records."""
