"""What a program of 200 nodes costs to build, name, write and read, and the same as nested lists through json and BLAKE3."""

from __future__ import annotations

import dataclasses
import enum
import gc
import json
import tracemalloc
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from benchmarks.timing import interleave, parser, print_rows, time_call
from vyre_driver.ir import validate
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.builders import assign, buf_len, fma, gid_x, if_, let, load, loop, store, var
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.program import Program
from vyre_driver.ir.terms import Term

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.ir.nodes import Node

_PARTS = 33


def build() -> Program:
    """Return a program of 200 nodes and some 900 expressions, no two of its parts alike."""
    x, y = BufferDecl.read("x", 0, DataType.F32), BufferDecl.read_write("y", 1, DataType.F32)
    i = gid_x()
    nodes: list[Node] = []
    for part in range(_PARTS):
        total, k = var(f"total{part}", DataType.F32), var(f"k{part}", DataType.U32)
        at = var(f"at{part}", DataType.U32)
        nodes += [
            let(at, i * _PARTS + part),
            let(total, 0.5 * part),
            loop(k, 0, part + 1, [assign(total, fma(load(x, at + k), 1.0 / (part + 1), total))]),
            if_((at < buf_len(y)).and_(total > 0.0), [store(y, at, total * load(y, at) - (0.25 + total))]),
        ]
    return Program.wrapped([x, y], (64, 1, 1), [*nodes, store(y, 0, load(x, 0))])


def nested(value: Any) -> Any:
    """Return a program's parts as lists that json takes."""
    if isinstance(value, Term):
        return [value.wire_tag, *(nested(getattr(value, field.name)) for field in dataclasses.fields(value))]  # type: ignore[arg-type]
    if isinstance(value, tuple):
        return [nested(one) for one in value]
    return value.value if isinstance(value, enum.Enum) else value


def bytes_a_term() -> float:
    """Return the bytes of memory that a node or expression of the program takes, all its parts included."""
    build()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    program = build()
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    stats = program.stats()
    return kept / (stats.node_count + stats.expression_count)


def main() -> None:
    """Run every case."""
    options = parser(__doc__).parse_args()
    program = build()
    wire, wire_4 = program.to_wire(), program.to_wire(4)
    lists = nested(program.entry)
    text = json.dumps(lists).encode()

    def fresh() -> Program:
        return Program(program.buffers, program.workgroup_size, program.entry)

    def first(use: Callable[[Program], object]) -> Callable[[], float]:
        def measure() -> float:
            waiting = [fresh() for _ in range(options.repeats + 1)]
            return time_call(lambda: use(waiting.pop()), options.repeats)

        return measure

    def time_ours(call: Callable[[], object]) -> Callable[[], float]:
        return lambda: time_call(call, options.repeats)

    cases = {
        "build": {"ours": time_ours(build)},
        "encode and digest, first time": {
            "ours": first(lambda one: (one.to_wire(), one.digest())),
            "json": time_ours(lambda: blake3(json.dumps(lists).encode()).digest()),
        },
        "encode and digest, memoised": {"ours": time_ours(lambda: (program.to_wire(), program.digest()))},
        "strong digest alone, first time": {"ours": first(Program.digest)},
        "digest v2 and fingerprint, first time": {
            "ours": first(lambda one: (one.normalized_cache_digest(), one.fingerprint()))
        },
        "decode and validate": {"ours": time_ours(lambda: validate(Program.from_wire(wire)))},
        "decode": {"ours": time_ours(lambda: Program.from_wire(wire)), "json": time_ours(lambda: json.loads(text))},
        "decode format 4": {"ours": time_ours(lambda: Program.from_wire(wire_4))},
        "print": {"ours": time_ours(lambda: str(program))},
    }
    rows = [row for what, contenders in cases.items() for row in interleave(what, contenders, options.rounds)]
    stats = program.stats()
    facts = {
        "nodes": stats.node_count,
        "expressions": stats.expression_count,
        "wire bytes": len(wire),
        "json bytes": len(text),
        "memory bytes a term": round(bytes_a_term(), 1),
    }
    print_rows(rows, facts, as_json=options.json)


if __name__ == "__main__":
    main()
