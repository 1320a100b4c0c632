"""What can be said in options, and how it is checked before anything runs."""
