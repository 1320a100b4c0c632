"""What a checker asks brokers and answers operators, over gRPC."""
