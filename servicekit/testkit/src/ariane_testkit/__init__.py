"""What tests of ArianeMQ stand on: a virtual clock, the contract, ports, PostgreSQL, Maven."""
