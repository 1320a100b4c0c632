"""What admin watches: figures out of bounds, kept in the database and told to a webhook."""
