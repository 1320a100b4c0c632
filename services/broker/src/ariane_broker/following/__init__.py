"""Being a replica: following the primary's log and state, and standing for election."""
