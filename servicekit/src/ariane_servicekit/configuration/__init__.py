"""Settings of a process: their sources, and changes at run time."""
