"""HTTP/2 and gRPC's framing as rules over octets: no socket, no loop, no clock."""
