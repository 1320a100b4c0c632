"""Messages that come as Arrow columns become blocks of records."""
