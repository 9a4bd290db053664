"""What objects show of themselves: a line of text, and tables for notebooks."""
