"""The table of the functions that a kernel may call on numbers."""
