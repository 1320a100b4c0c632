"""Commands for this shell, which call no cluster."""
