"""Programs in other languages: fetched, built once, and spoken to."""
