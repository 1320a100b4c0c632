"""Progress reports of running streams."""
