"""The checker's gRPC: calls to brokers and name servers, and services for operators."""
