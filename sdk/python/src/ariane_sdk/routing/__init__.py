"""The brokers of a cluster, and the routes of topics."""
