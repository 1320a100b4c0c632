"""Output for people and programs: tables, lines, questions, exit statuses."""
