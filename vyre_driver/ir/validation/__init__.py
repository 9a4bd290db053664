"""Validation of programs: the rules of the IR and of a device, each finding with its path."""
