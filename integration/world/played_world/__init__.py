"""The house in one thread: real processes of ours on a disk, a clock and a network by seed."""
