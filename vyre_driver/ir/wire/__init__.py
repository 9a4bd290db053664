"""The wire format of programs: read and written, byte for byte as other vyre tools do."""
