"""What a process tells: logs and metrics."""
