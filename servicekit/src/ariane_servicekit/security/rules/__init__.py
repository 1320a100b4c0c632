"""What methods need, what users have, and what both have led to."""
