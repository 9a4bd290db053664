"""c = a @ b in tiles that a workgroup shares, so that each element is read from memory once a tile."""

from __future__ import annotations

from vyre_driver.ir import (
    BufferDecl,
    DataType,
    Program,
    assign,
    barrier,
    fma,
    gid_x,
    gid_y,
    let,
    lid_x,
    lid_y,
    load,
    loop,
    store,
    var,
)

TILE = 16


def matmul(n: int, *, fused: bool = True) -> Program:
    """Return the program for square matrices of ``n`` rows, a multiple of 16, stored by rows.

    Each step is an fma, which rounds once; not ``fused``, a product and a sum, which round twice.
    """
    a = BufferDecl.read("a", 0, DataType.F32).with_count(n * n)
    b = BufferDecl.read("b", 1, DataType.F32).with_count(n * n)
    c = BufferDecl.output("c", 2, DataType.F32).with_count(n * n)
    tile_a = BufferDecl.workgroup("tile_a", TILE * TILE, DataType.F32)
    tile_b = BufferDecl.workgroup("tile_b", TILE * TILE, DataType.F32)

    row, column = gid_y(), gid_x()
    own = lid_y() * TILE + lid_x()
    total = var("total", DataType.F32)
    tile, k = var("tile", DataType.U32), var("k", DataType.U32)
    left, right = load(tile_a, lid_y() * TILE + k), load(tile_b, k * TILE + lid_x())
    return Program.wrapped(
        [a, b, c, tile_a, tile_b],
        (TILE, TILE, 1),
        [
            let(total, 0.0),
            loop(
                tile,
                0,
                n // TILE,
                [
                    store(tile_a, own, load(a, row * n + tile * TILE + lid_x())),
                    store(tile_b, own, load(b, (tile * TILE + lid_y()) * n + column)),
                    barrier(),
                    loop(k, 0, TILE, [assign(total, fma(left, right, total) if fused else total + left * right)]),
                    barrier(),
                ],
            ),
            store(c, row * n + column, total),
        ],
    ).with_entry_op_id("example.matmul")


if __name__ == "__main__":
    print(matmul(1024))
