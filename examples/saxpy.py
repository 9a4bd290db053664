"""y = alpha * x + y, one element an invocation."""

from __future__ import annotations

from vyre_driver.ir import BufferDecl, DataType, Program, buf_len, gid_x, if_, load, store


def saxpy(alpha: float) -> Program:
    """Return the program for arrays of any length."""
    x = BufferDecl.read("x", 0, DataType.F32)
    y = BufferDecl.read_write("y", 1, DataType.F32)
    i = gid_x()
    return Program.wrapped(
        [x, y],
        (64, 1, 1),
        [
            if_(i < buf_len(y), [store(y, i, alpha * load(x, i) + load(y, i))]),
        ],
    ).with_entry_op_id("example.saxpy")


if __name__ == "__main__":
    print(saxpy(2.0))
