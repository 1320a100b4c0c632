"""The gRPC server of a process, and what each call passes through."""
