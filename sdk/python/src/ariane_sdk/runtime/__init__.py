"""The clients' access to their process: clock, disk, tasks, threads, forks, the log."""
