"""What can run a compiled program; so far kompute."""
