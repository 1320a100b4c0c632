"""What people and programs see: tables, lines, questions, exit statuses."""
