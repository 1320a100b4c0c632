"""The data source: reads queues as tables and streams."""
