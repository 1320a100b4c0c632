"""Admin's pages for browsers: drawn by the server, filled from the API."""
