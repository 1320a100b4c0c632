"""Changing the processes of a cluster, through admin or directly."""
