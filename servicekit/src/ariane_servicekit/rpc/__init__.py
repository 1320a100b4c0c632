"""The gRPC server of a process, and the stages that each call passes."""
