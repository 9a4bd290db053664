"""Tuned constants kept: records, the file that processes share, and which record a driver takes."""
