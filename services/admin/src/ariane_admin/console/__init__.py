"""The console: pages for browsers, rendered by admin from answers of its API."""
