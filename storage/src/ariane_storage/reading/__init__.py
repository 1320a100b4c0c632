"""Reading queues and single records of an open store."""
