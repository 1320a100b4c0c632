"""A year of flights through Spark: archive, joins, sessions, statistics, replay; see the README."""
