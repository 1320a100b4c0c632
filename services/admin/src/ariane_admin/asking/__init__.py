"""Calls from the command line and admin to the processes of a cluster."""
