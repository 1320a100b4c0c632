"""What one user may do, as a question of three words."""
