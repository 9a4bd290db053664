"""The wire format of programs: read and write it, byte for byte as other vyre tools do."""
