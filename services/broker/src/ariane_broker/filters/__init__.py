"""Filters of messages: expressions of the contract, and the filters of reads."""
