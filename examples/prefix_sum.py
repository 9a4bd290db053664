"""The running sum of each block of 256 values: the first pass of a prefix sum over any number of them."""

from __future__ import annotations

from vyre_driver.ir import BufferDecl, DataType, Program, assign, barrier, gid_x, if_, let, lid_x, load, store, u32, var, wid_x

BLOCK = 256


def prefix_sum() -> Program:
    """Return the program; ``totals`` takes the sum of each block, for the next pass."""
    values = BufferDecl.read("values", 0, DataType.U32)
    sums = BufferDecl.read_write("sums", 1, DataType.U32)
    totals = BufferDecl.read_write("totals", 2, DataType.U32)
    shared = BufferDecl.workgroup("shared", BLOCK, DataType.U32)

    i = lid_x()
    total, earlier = var("total", DataType.U32), var("earlier", DataType.U32)
    steps = []
    distance = 1
    while distance < BLOCK:
        steps += [
            assign(earlier, 0),
            if_(i >= distance, [assign(earlier, load(shared, i - distance))]),
            barrier(),
            assign(total, total + earlier),
            store(shared, i, total),
            barrier(),
        ]
        distance *= 2
    return Program.wrapped(
        [values, sums, totals, shared],
        (BLOCK, 1, 1),
        [
            let(total, load(values, gid_x())),
            let(earlier, u32(0)),
            store(shared, i, total),
            barrier(),
            *steps,
            store(sums, gid_x(), total),
            if_(i.eq(BLOCK - 1), [store(totals, wid_x(), total)]),
        ],
    ).with_entry_op_id("example.prefix_sum")


if __name__ == "__main__":
    print(prefix_sum())
