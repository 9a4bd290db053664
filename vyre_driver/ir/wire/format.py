"""The constants of the wire container, formats 4 to 7.

Upstream's 0.6.2 to 0.6.5 write 4, 0.7.0 to 0.7.2 write 6, and 0.8.0 writes 7; 5 lived for a day.

Source: spec item 3.5; upstream 0.7, section 1.1.
"""

from __future__ import annotations

from vyre_driver.ir import dtypes

MAGIC = b"VYRE"
VERSION = 6
"""The version that is written by default."""
OLDEST, NEWEST = 4, 7  # that are read
WITHOUT_REQUIREMENTS = 4  # the newest that is written and has no place for linear types, bytes_extraction and shape predicates
REQUIREMENTS_SINCE = 6
TILES_SINCE = 7
TILE_NODES = {
    19: "TileLoad",
    20: "TileStore",
    21: "TileMatmul",
    22: "TileReduce",
    23: "TileElementwise",
    24: "TileDecl",
}
ENDIAN_FIXED = 4  # of the flags; 1 is compressed and 2 sealed, which nobody writes
HEADER_BYTES = 40  # magic, u16 version, u16 flags, 32-byte digest of the body

METADATA_OP = "vyre.program.metadata"
METADATA_MAGIC = b"VYRE-META"

MAX_BUFFERS = 16_384
MAX_NODES = 1_000_000
MAX_CALL_ARGS = 4_096
MAX_STRING_BYTES = 1 << 20
MAX_PAYLOAD_BYTES = 4 << 20
MAX_NESTING = 64
MAX_AXES = 4_096  # of a shaped tensor or a mesh
MAX_EXPRESSION_DEPTH = 128  # what the validator allows; the format names no limit of its own
MAX_TERMS = 4_000_000  # nodes and expressions together: ours, it bounds the memory of a reader
MAX_PREDICATE_PARTS = 100_000  # of all buffers together: ours too, it bounds time and memory
MAX_CONTAINER_BYTES = 64 << 20

# Element types whose parameters have no place in the buffer table, and those that upstream refuses there.
LOSSY_ELEMENTS = frozenset({dtypes.VEC, dtypes.TENSOR_SHAPED})
REFUSED_ELEMENTS = frozenset({dtypes.SPARSE_CSR, dtypes.SPARSE_COO, dtypes.SPARSE_BSR, dtypes.DEVICE_MESH})
