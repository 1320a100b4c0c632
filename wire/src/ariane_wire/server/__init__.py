"""Servers, and the calls that they answer."""
