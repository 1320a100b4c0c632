"""How the schema came to be, one revision a module."""
