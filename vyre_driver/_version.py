"""The version of this package, which its metadata and what it writes have from here."""

__version__ = "0.2.0"
