"""``ariane filter``: uploaded filters, and trying them."""
