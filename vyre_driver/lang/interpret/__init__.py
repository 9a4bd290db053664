"""A kernel run as the Python function that it is, with the semantics of its program."""
