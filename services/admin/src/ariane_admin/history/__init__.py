"""The history of the cluster: figures are sampled, kept for a while, and averaged by steps."""
