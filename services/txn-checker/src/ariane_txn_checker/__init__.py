"""Transaction checker: has producers asked about half messages. Nothing here yet."""
