"""Messages on their way to consumers, and what becomes of them."""
