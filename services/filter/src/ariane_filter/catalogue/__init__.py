"""The uploaded filters: names, versions, and the folder that keeps them."""
