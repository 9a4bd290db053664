"""The input language: programs as values, how they are built, checked, printed, carried and named."""
