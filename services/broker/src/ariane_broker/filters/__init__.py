"""Which messages a reader wants: expressions of the contract, and what a read asks of them."""
