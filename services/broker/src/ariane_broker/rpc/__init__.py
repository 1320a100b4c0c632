"""Everything that speaks gRPC or protobuf: servicers, streams, wire forms."""
