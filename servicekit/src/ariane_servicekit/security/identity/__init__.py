"""Who calls: logins, tokens, and whom a member acts for."""
