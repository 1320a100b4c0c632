"""Whether a call may run: judged, counted, logged, and ended with its right."""
