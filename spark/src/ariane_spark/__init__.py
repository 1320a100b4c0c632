"""ArianeMQ as a table and a stream in Spark."""
