"""Certificates: authorities, the names in certificates, and what a process shows."""
