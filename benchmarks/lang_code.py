"""What the code of kernels in Python is worth beside GLSL written by hand: instructions, and time on a device.

Each of twelve kernels of examples/gallery has a shader in benchmarks/glsl that does the same. Instructions are those of whole
modules without labels, declarations and merges: as they are emitted, and after ``spirv-opt -O`` where that is installed, which
inlines functions and drops what is computed twice, so that these compare work with work; loops are kept as they are, whatever
they hint, and float controls, which no shader here has, are left out, since spirv-opt keeps dead code beside them.

"device" is how kernels are compiled by default, which keeps every access inside of its buffer; "robust" is them with
``bounds="robust"``, which leaves that to the device, as the shaders do; "exact" rounds as the reference interpreter does. Times
are shares of a batch that is replayed on resident buffers.
"""

from __future__ import annotations

import array
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.lang_kernels import gallery_module
from benchmarks.lower import _replayed as replayed
from benchmarks.timing import Row, interleave, parser, print_rows
from vyre_driver import Driver, SpirvModule
from vyre_driver.binding import BindingPlan
from vyre_driver.lowering.emit.entry import emit
from vyre_driver.lowering.emit.target import LoweringTarget
from vyre_driver.process.tools import GLSLANG, find_tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from vyre_driver.lang import Kernel

_SHADERS = Path(__file__).with_name("glsl")
_FEATURES = frozenset({"shaderInt64", "shaderInt8", "storageBuffer8BitAccess", "shaderSignedZeroInfNanPreserveFloat32"})
_MODES = {
    "device": LoweringTarget(_FEATURES, strict=False),
    "robust": LoweringTarget(_FEATURES, strict=False, checks=False),
    "exact": LoweringTarget(_FEATURES, strict=True),
}
# Nothing is computed for Function, FunctionParameter, FunctionEnd, Variable, Bitcast, LoopMerge, SelectionMerge, Label, Return.
_NO_WORK = frozenset({54, 55, 56, 59, 124, 246, 247, 248, 253})
_CAPABILITY, _EXTENSION, _EXECUTION_MODE = 17, 10, 16
_FLOAT_CONTROLS = {_CAPABILITY: (1, range(4464, 4469)), _EXECUTION_MODE: (2, range(4459, 4464))}
_FLOAT_CONTROLS_NAME = b"SPV_KHR_float_controls\0"
_SAME = 0.98  # of the elements: where a shader's products and sums are joined, a point of a picture may turn out another
_FUNCTION, _LOOP_MERGE = 54, 246


class Case(NamedTuple):
    """A kernel with its arrays, in order, and numbers, and what its twin is told instead."""

    kernel: Kernel
    arrays: dict[str, NDArray[Any]]
    numbers: dict[str, float]
    push: dict[str, float]
    grid: tuple[int, int, int]


def cases(scale: int) -> dict[str, Case]:
    """Return what is compared; arrays grow with the scale."""
    random = np.random.default_rng(1)
    n, side = 1 << 12 + scale, 64 << scale // 2
    flat, square = (n // 64, 1, 1), (side // 16, side // 16, 1)
    plane = random.random((side, side), np.float32)
    x, y = random.random((2, n), np.float32)

    def of(module: str, name: str) -> Kernel:
        found: Kernel = getattr(gallery_module(module), name)
        return found

    bodies, speeds = gallery_module("nbody").data(64 << scale // 2)
    bytes_, points = gallery_module("histogram").data(n)[0], gallery_module("kmeans").data(n)
    values, columns, starts, vector = gallery_module("spmv").data(n)
    options = gallery_module("black_scholes").data(n)
    size, wide = {"height": side, "width": side}, plane.shape
    made = {
        "saxpy": Case(of("saxpy", "saxpy"), {"x": x, "y": y}, {"a": 2.0}, {"a": 2.0, "count": n}, flat),
        "matmul": Case(
            of("matmul", "matmul"),
            {"a": plane, "b": plane.T.copy(), "c": np.zeros_like(plane)},
            {},
            {"rows": side, "inner": side, "columns": side},
            square,
        ),
        "histogram": Case(
            of("histogram", "histogram").groups(n // 2048),
            {"values": bytes_, "counts": np.zeros(256, np.uint32)},
            {},
            {"count": n},
            (n // 2048, 1, 1),
        ),
        "reduction": Case(
            of("reduction", "sums_of_groups").groups(n // 2048),
            {"x": x, "sums": np.zeros(n // 2048, np.float32)},
            {},
            {"count": n},
            (n // 2048, 1, 1),
        ),
        "nbody": Case(
            of("nbody", "accelerate"),
            {"places": bodies, "speeds": speeds},
            {"step": 0.01},
            {"step_": 0.01, "count": len(bodies)},
            (len(bodies) // 64, 1, 1),
        ),
        "mandelbrot": Case(
            of("mandelbrot", "turns_to_leave"),
            {"turns": np.zeros(wide, np.int32)},
            {"left": -2.0, "top": -1.25, "step": 2.5 / side, "limit": 64},
            {"left": -2.0, "top": -1.25, "step_": 2.5 / side, "limit": 64, **size},
            square,
        ),
        "heat": Case(
            of("heat", "warm"), {"now": plane, "then": np.zeros_like(plane)}, {"rate": 0.1}, {"rate": 0.1, **size}, square
        ),
        "kmeans": Case(
            of("kmeans", "assign"),
            {"points": points[0], "centres": points[1], "labels": np.zeros(n, np.int32)},
            {},
            {"count": n, "centre_count": 16, "axes": 2},
            flat,
        ),
        "black_scholes": Case(
            of("black_scholes", "prices"),
            {
                **dict(zip(("spot", "strike", "years"), options, strict=True)),
                **{one: np.zeros(n, np.float32) for one in ("call", "put")},
            },
            {"rate": 0.02, "sigma": 0.3},
            {"rate": 0.02, "sigma": 0.3, "count": n},
            flat,
        ),
        "conv2d": Case(
            of("conv2d", "convolve"),
            {"source": plane, "weights": gallery_module("conv2d").data(8)[1], "result": np.zeros_like(plane)},
            {},
            size,
            square,
        ),
        "sobel": Case(of("sobel", "edges"), {"picture": plane, "strength": np.zeros_like(plane)}, {}, size, square),
        "spmv": Case(
            of("spmv", "product").over(n),
            {"values": values, "columns": columns, "starts": starts, "x": vector, "y": np.zeros(n, np.float32)},
            {},
            {"count": n},
            flat,
        ),
    }
    return made  # noqa: RET504 -- a table


def shader(name: str) -> SpirvModule:
    """Return a shader written by hand, of the .spv file beside it where there is no glslangValidator."""
    source = _SHADERS / f"{name}.comp"
    return SpirvModule.from_glsl(source) if find_tool(GLSLANG) else SpirvModule.from_file(source.with_suffix(".spv"))


def instructions(words: array.array[int]) -> Iterator[tuple[int, int]]:
    """Yield the opcode and the place of each instruction of a module."""
    at = 5
    while at < len(words):
        yield words[at] & 0xFFFF, at
        at += words[at] >> 16


def instruction_count(code: bytes) -> int:
    """Return the instructions of a module's functions that compute, load, store or branch."""
    opcodes = [opcode for opcode, _ in instructions(array.array("I", code))]
    return sum(opcode not in _NO_WORK for opcode in opcodes[opcodes.index(_FUNCTION) :])


def without_hints(code: bytes) -> bytes:
    """Return a module that says nothing of unrolling, which spirv-opt does at its word, and nothing of float controls."""
    words = array.array("I", code)
    found = words[:5]
    for opcode, at in instructions(words):
        one = words[at : at + (words[at] >> 16)]
        place, values = _FLOAT_CONTROLS.get(opcode, (0, range(0)))
        if one[place] in values or (opcode == _EXTENSION and one[1:].tobytes().startswith(_FLOAT_CONTROLS_NAME)):
            continue
        if opcode == _LOOP_MERGE:
            one[3] = 0
        found += one
    return found.tobytes()


def optimised(code: bytes) -> bytes | None:
    """Return a module after ``spirv-opt -O``; None where that is not installed."""
    tool = shutil.which("spirv-opt")
    if tool is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "before.spv"), Path(folder, "after.spv")
        before.write_bytes(without_hints(code))
        subprocess.run([tool, "-O", str(before), "-o", str(after)], check=True)
        return after.read_bytes()


def code_facts(made: dict[str, Case]) -> dict[str, Any]:
    """Return the instructions of every module, and how each kernel compares with its shader."""
    facts: dict[str, Any] = {}
    for name, case in made.items():
        codes = {}
        for mode, target in _MODES.items():
            program = (robust(case.kernel) if mode == "robust" else case.kernel).program()
            codes[mode] = emit(program, BindingPlan.build(program), (), target).code
        codes["glsl"] = shader(name).code
        emitted = {mode: instruction_count(code) for mode, code in codes.items()}
        after = {mode: instruction_count(best) for mode, code in codes.items() if (best := optimised(code)) is not None}
        facts[name] = {"emitted": emitted, "optimised": after}
        for how, found in (("emitted", emitted), ("optimised", after)):
            if found:
                facts[name] |= {f"{one} / glsl, {how}": round(found[one] / found["glsl"], 3) for one in ("device", "robust")}
    return facts


def robust(kernel: Kernel) -> Kernel:
    """Return a kernel as it is with ``bounds="robust"``."""
    return type(kernel)(kernel.function, kernel.definition._replace(bounds="robust"), kernel._choices)  # noqa: SLF001 -- its extent


def times(driver: Driver, made: dict[str, Case], rounds: int) -> tuple[list[Row], dict[str, str]]:
    """Time every kernel in turn with its shader; the facts tell our time as a share of the shader's."""
    rows: list[Row] = []
    facts: dict[str, str] = {}
    for name, case in made.items():
        calls, wanted = {}, None
        for contender in ("glsl", "device"):
            buffers = {one: driver.buffer(array) for one, array in case.arrays.items()}
            if contender == "glsl":
                bound = driver.compile(shader(name)).bind(*buffers.values(), workgroups=case.grid, push_constants=case.push)
            else:
                bound = case.kernel.on(driver).bind(**buffers, **case.numbers)
            bound.run()
            found = [buffer.read() for buffer in buffers.values()]
            wanted = found if wanted is None else wanted
            near = [np.isclose(one, other, rtol=1e-3, atol=1e-4).mean() for one, other in zip(found, wanted, strict=True)]
            if min(near) < _SAME:
                raise SystemExit(f"{name}: the kernel's result is not its shader's")
            calls[contender] = replayed(driver, bound)
        made_rows = interleave(name, calls, rounds)
        taken = {row.contender: row.median_us for row in made_rows}
        facts[name] = f"{taken['device'] / taken['glsl'] - 1:+.1%}"
        rows += made_rows
    return rows, facts


def main() -> None:
    """Count, and time where that is asked for."""
    options = parser(__doc__)
    options.add_argument("--scale", type=int, default=4, help="arrays of 2^(12 + scale) elements (default 4; 12 on a GPU)")
    options.add_argument("--only", action="append", help="a kernel; again for more")
    options.add_argument("--no-times", action="store_true", help="count instructions only")
    given = options.parse_args()
    made = {name: case for name, case in cases(given.scale).items() if not given.only or name in given.only}
    facts: dict[str, Any] = {"instructions": code_facts(made)}
    rows: list[Row] = []
    if not given.no_times:
        with Driver(given.device, allow_software=True) as driver:
            rows, told = times(driver, made, given.rounds)
            facts = {**driver.report(), "rounds": given.rounds, "scale": given.scale, **facts, "time beside glsl": told}
    print_rows(rows, facts, as_json=given.json)


if __name__ == "__main__":
    main()
