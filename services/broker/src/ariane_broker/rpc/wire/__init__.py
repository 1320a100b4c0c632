"""Messages of the contract, to and from what the use cases speak."""
