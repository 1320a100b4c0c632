"""One servicer for each service of the contract: it translates, and calls use cases."""
