"""The typed translation of a function's syntax tree to a program."""
