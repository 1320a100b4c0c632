"""One module for each service of the contract: each only translates."""
