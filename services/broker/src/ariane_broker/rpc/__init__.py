"""All code that uses gRPC or Protocol Buffers: servicers, streams, wire forms."""
