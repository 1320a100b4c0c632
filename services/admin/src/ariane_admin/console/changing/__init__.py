"""Changes of the cluster by forms: what is asked for, what it would do, and what came of it."""
