"""The options of queries, and their checks before a query runs."""
