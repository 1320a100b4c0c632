"""Admin's pages for browsers."""
