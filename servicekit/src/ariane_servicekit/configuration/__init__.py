"""Settings of a process: where they come from, which may change."""
