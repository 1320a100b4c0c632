"""Pulls on behalf of groups: what the broker answers, less what filters leave out."""
