"""Programs that build and check the book."""
