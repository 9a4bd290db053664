"""How often each value occurs, with one atomic a value."""

from __future__ import annotations

from vyre_driver.ir import BufferDecl, DataType, Program, atomic_add, buf_len, gid_x, if_, let, load, var


def histogram(bins: int) -> Program:
    """Return the program that counts values modulo ``bins``."""
    values = BufferDecl.read("values", 0, DataType.U32)
    counts = BufferDecl.read_write("counts", 1, DataType.U32).with_count(bins)
    i = gid_x()
    bin_of_value = var("bin", DataType.U32)
    return Program.wrapped(
        [values, counts],
        (256, 1, 1),
        [
            if_(
                i < buf_len(values),
                [
                    let(bin_of_value, load(values, i) % bins),
                    let("before", atomic_add(counts, bin_of_value, 1)),
                ],
            ),
        ],
    ).with_entry_op_id("example.histogram")


if __name__ == "__main__":
    print(histogram(256))
