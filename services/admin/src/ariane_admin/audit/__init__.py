"""The audit trail of changes: a chain of records in the database, and its writers."""
