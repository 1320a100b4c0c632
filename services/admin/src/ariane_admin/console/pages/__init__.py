"""The pages: one module for each part of the menu, which turns answers of the API into blocks."""
