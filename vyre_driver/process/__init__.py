"""Threads, locks, open files and child processes of this process."""
