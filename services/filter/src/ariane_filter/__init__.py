"""FilterServer: runs uploaded filters between a broker and its consumers."""
