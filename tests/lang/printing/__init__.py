"""Programs as Python: the kernel in the language that gives a program."""
