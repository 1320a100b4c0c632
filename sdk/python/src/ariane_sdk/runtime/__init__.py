"""What the clients need of their process: clock, disk, tasks, threads, forks, the log."""
