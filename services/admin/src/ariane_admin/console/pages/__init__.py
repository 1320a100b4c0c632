"""One module for each part of the menu: from answers of the API to blocks."""
