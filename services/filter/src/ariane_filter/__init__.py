"""FilterServer: runs uploaded filters before consumers. So far, the jail that they run in."""
