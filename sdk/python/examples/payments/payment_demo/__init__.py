"""A shop, a bank, and what may go wrong between them. They share a database to compare sums."""
