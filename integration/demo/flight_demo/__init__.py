"""A year of real flights through a whole cluster, and every total compared with its closed form."""
