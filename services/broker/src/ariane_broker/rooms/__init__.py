"""The rooms of a broker, each built by one function from those before it."""
