"""How much users, topics and addresses may have and do."""
