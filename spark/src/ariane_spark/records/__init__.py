"""Messages as rows and columns of Spark, and rows as messages."""
