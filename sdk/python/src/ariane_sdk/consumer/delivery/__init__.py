"""From the window of a queue to the application, and back when that fails."""
