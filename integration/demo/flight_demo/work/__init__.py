"""What the cluster does with the events: sending, consuming, filters, Spark, kills."""
