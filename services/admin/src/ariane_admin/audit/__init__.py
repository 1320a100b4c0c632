"""Who changed what: a chain of records in the database, and what writes them."""
