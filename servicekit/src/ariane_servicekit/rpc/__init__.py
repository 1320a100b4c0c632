"""The gRPC server of a process: what each call passes through."""
