"""One file for each RPC service: they translate, and decide nothing."""
