"""The services of the contract in front of catalogue, pulls and workers."""
