"""Tuning on a device: what a record is for, what is known when something is compiled, and how candidates are measured."""
