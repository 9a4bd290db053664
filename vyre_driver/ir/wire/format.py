"""The constants of the wire container, format 4.

Source: spec item 3.5.
"""

from __future__ import annotations

from vyre_driver.ir import dtypes

MAGIC = b"VYRE"
VERSION = 4
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
MAX_EXPRESSION_DEPTH = 128  # what the validator allows; the format names no limit of its own
MAX_TERMS = 4_000_000  # nodes and expressions together: ours, it bounds the memory of a reader
MAX_CONTAINER_BYTES = 64 << 20

# Element types whose parameters have no place in the buffer table, and those that upstream refuses there.
LOSSY_ELEMENTS = frozenset({dtypes.VEC, dtypes.TENSOR_SHAPED})
REFUSED_ELEMENTS = frozenset({dtypes.SPARSE_CSR, dtypes.SPARSE_COO, dtypes.SPARSE_BSR, dtypes.DEVICE_MESH})
