"""What may be tuned, and the search for the best of it: pure, and the same for the same times."""
