"""The data source: tables and streams out of queues."""
