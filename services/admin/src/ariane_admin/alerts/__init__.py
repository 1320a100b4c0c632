"""Alerts: figures out of bounds, kept in the database and sent to a webhook."""
