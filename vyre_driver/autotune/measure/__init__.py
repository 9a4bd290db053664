"""Candidates compiled, checked and timed on a device."""
