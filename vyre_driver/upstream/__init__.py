"""Identities and keys of upstream's, bit for bit, which other vyre tools share; they select nothing alone."""
