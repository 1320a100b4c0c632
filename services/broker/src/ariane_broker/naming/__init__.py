"""What name servers are told."""
