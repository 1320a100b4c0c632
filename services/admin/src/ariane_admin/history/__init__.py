"""What went through the cluster over time: sampled, kept for a while, told by steps."""
