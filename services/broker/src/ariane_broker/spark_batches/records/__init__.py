"""What the log says of batches and sinks: its records, their formats, and the table of both."""
