"""Half messages and what becomes of them: stored, invisible, until somebody ends them."""
