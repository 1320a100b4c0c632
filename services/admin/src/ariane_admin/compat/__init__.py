"""How the commands of others are said here."""
