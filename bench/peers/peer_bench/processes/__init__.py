"""Processes that a run starts: their groups, CPU time and memory."""
