"""``vyre-driver run``: any compute shader, or program, on files, on what is piped in, or on made-up numbers."""

from __future__ import annotations

import argparse
import math
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.binding.plan import BindingPlan, BindingRole
from vyre_driver.cli.files import (
    MAX_BYTES,
    STANDARD,
    OutputFile,
    StandardOutput,
    add_shader,
    is_included,
    load_code,
    read_array,
    read_stdin_array,
)
from vyre_driver.cli.options import (
    add_device,
    add_json,
    human_bytes,
    human_measure,
    pairs,
    print_json,
    printable,
    say,
    tell,
    whole_numbers,
)
from vyre_driver.display.line import count
from vyre_driver.driver import Driver
from vyre_driver.errors import InvalidCommand, InvalidInput, InvalidPushConstant, InvalidSpecialization, with_article
from vyre_driver.kompute.submission import NoDispatch
from vyre_driver.kompute.timing import TimedDispatches
from vyre_driver.spirv.layout import numbers_of, shown
from vyre_driver.spirv.module import SpirvModule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.binding.plan import Binding
    from vyre_driver.ir.program import Program
    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.runtime.bound import BoundKernel
    from vyre_driver.runtime.kernel import Kernel
    from vyre_driver.spirv.layout import Member

_COUNT_DIGITS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    add_shader(parser, takes_programs=True, is_optional=True)
    parser.add_argument("--list", action="store_true", help="print the included shaders and what they take, and stop")
    parser.add_argument(
        "--in",
        dest="inputs",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help=".npy or raw bytes; - reads .npy from standard input; random:SHAPE[:TYPE] (the same each time), zeros:, ones: and "
        "arange: need no file, with a SHAPE such as 1000 or 64x32",
    )
    parser.add_argument(
        "--out",
        dest="outputs",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help=".npy or raw bytes; - writes .npy to standard output, and the report to standard error",
    )
    parser.add_argument(
        "--count", dest="counts", action="append", default=[], metavar="NAME=N", help="elements of a buffer without --in, zero"
    )
    _add_call(parser)
    add_device(parser)
    add_json(parser)


def _add_call(parser: argparse.ArgumentParser) -> None:
    """Add how the shader is called."""
    parser.add_argument(
        "--spec", dest="specs", action="append", default=[], metavar="NAME=VALUE", help="specialization constant"
    )
    parser.add_argument("--push", action="append", default=[], metavar="NAME=VALUE", help="push constant (a vector: V,V,V)")
    grid = parser.add_mutually_exclusive_group()
    grid.add_argument(
        "--workgroups",
        default="auto",
        metavar="X,Y,Z|auto",
        help="how many workgroups; auto: an invocation an element of the largest output",
    )
    grid.add_argument("--invocations", metavar="W,H,D", help="how many invocations, in whole workgroups that have as many")
    parser.add_argument(
        "--time",
        nargs="?",
        const=0,
        type=_runs,
        metavar="N",
        help="tell how long N more runs take, on a device that is kept busy before (default: as many as take a second)",
    )
    parser.add_argument("--strict", action="store_true", help="fail where outputs are left unwritten or inputs are changed")
    parser.add_argument("--allow-software", action="store_true", help="accept a CPU device")


def _runs(text: str) -> int:
    if not text.isdecimal() or len(text) > _COUNT_DIGITS or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of runs: write --time=N, or --time behind the shader")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Run the shader: everything given is read and checked first, the device is opened then, files appear last."""
    if options.list:
        return _list(options)
    inputs, outputs = pairs("--in", options.inputs), pairs("--out", options.outputs)
    _check_shader(options.shader, inputs, outputs)
    code = load_code(options.shader, options.entry)
    plan = BindingPlan.from_reflection(code.reflection) if isinstance(code, SpirvModule) else BindingPlan.build(code)
    specs = _specs(code, pairs("--spec", options.specs))
    push = _push(_push_members(code, plan), pairs("--push", options.push))
    arrays, out_shapes = _inputs(plan, inputs, pairs("--count", options.counts))
    if is_included(options.shader):
        with_contents = (binding.name for binding in plan.descriptors if binding.role is not BindingRole.OUTPUT)
        check_lengths(options.shader, push, dict(zip(with_contents, arrays, strict=True)))
    grid = _grid(options)
    with ExitStack() as stack:
        files = _open_outputs(plan, outputs, stack)
        driver = stack.enter_context(Driver(options.device, allow_software=options.allow_software or None))
        kernel = driver.compile(code, specs)

        def call(*, strict: bool | None = None) -> Any:  # noqa: ANN401 -- as a kernel's
            return kernel(*arrays, **grid, push_constants=push, out_shapes=out_shapes, strict=strict)

        named = _named(plan, call(strict=options.strict or None))
        took = None
        if options.time is not None:
            buffers = _buffers(driver, plan, arrays, named)
            moved = sum(one.nbytes for one in (*arrays, *named.values()))
            took = timed(call, kernel.bind(*buffers, **grid, push_constants=push), options.time, moved)
        for name, file in files.items():
            file.write(named[name])
        _show(driver, kernel, _described(named, files), took, as_json=options.json)
    return 0


def _grid(options: argparse.Namespace) -> dict[str, Any]:
    """Return the grid as a call takes it, none to have it guessed."""
    if options.invocations is not None:
        return {"invocations": whole_numbers("--invocations", options.invocations)}
    return {} if options.workgroups == "auto" else {"workgroups": whole_numbers("--workgroups", options.workgroups)}


def _list(options: argparse.Namespace) -> int:
    """Print the included shaders."""
    from vyre_driver.spirv.shipped import shipped_module, shipped_names  # late: only this needs all of them

    found = {name: shipped_module(name).signature.removeprefix("kernel") for name in shipped_names()}
    shaders = [{"name": name, "signature": f"{name}{takes}"} for name, takes in found.items()]
    tell(options, {"shaders": shaders}, *(one["signature"] for one in shaders))
    return 0


def _check_shader(shader: str | None, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> None:
    """Check that there is a shader, and that standard input and output are named once at most."""
    if shader is None:
        raise InvalidCommand(
            "the command line is wrong: the following arguments are required: SHADER", fix="see vyre-driver run --help"
        )
    for what, used in (("input", [shader, *inputs.values()]), ("output", list(outputs.values()))):
        times = used.count(STANDARD)
        if times > 1:
            raise InvalidCommand(f"standard {what} is named {times} times", fix="name it once, and give files for the rest")


def _buffers(
    driver: Driver, plan: BindingPlan, arrays: Sequence[NDArray[Any]], results: Mapping[str, NDArray[Any]]
) -> list[Buffer]:
    """Return resident buffers with what a call is given, in binding order; what is only written has its result."""
    left = iter(arrays)
    values = {
        binding.name: results[binding.name] if binding.role is BindingRole.OUTPUT else next(left)
        for binding in plan.descriptors
    }
    return [driver.buffer(_in_memory(plan, name, array)) for name, array in values.items()]


def _in_memory(plan: BindingPlan, name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as the shader reads it, with the axes before its elements, which a grid may be guessed of."""
    packed = plan.pack(name, array)
    outer = [array.shape[:axes] for axes in range(array.ndim) if math.prod(array.shape[:axes]) == len(packed)]
    return packed.reshape(*outer[-1], -1) if packed.dtype != array.dtype and outer else packed


def _specs(code: SpirvModule | Program, given: Mapping[str, str]) -> dict[str, object]:
    if not isinstance(code, SpirvModule):
        return {name: _number(name, text) for name, text in given.items()}
    scalars = {constant.name: constant.scalar for constant in code.reflection.spec_constants}
    values: dict[str, object] = {}
    for name, text in given.items():
        try:
            # An unknown name is refused later, with the names there are.
            values[name] = scalars[name].parse(text) if name in scalars else text
        except ValueError as error:
            raise InvalidSpecialization(
                f"--spec {name}={text}: {name!r} is {with_article(str(scalars[name]))} ({error})",
                fix=f"give {with_article(str(scalars[name]))}",
                constant=name,
            ) from error
    return values


def _number(name: str, text: str) -> int | float | bool:
    """Return the value for a let of a program, whose type the program knows."""
    if text in {"true", "false"}:
        return text == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    raise InvalidSpecialization(f"--spec {name}={text} is no number", fix="give a number, true or false", constant=name)


def _push_members(code: SpirvModule | Program, plan: BindingPlan) -> Sequence[Member]:
    """Return the push constants that the code declares."""
    if isinstance(code, SpirvModule):
        return code.reflection.push_constants
    from vyre_driver.binding.pushed import pushed_members  # late: most run shaders, which need no part of the ir

    return pushed_members(plan)


def _push(declared: Sequence[Member], given: Mapping[str, str]) -> dict[str, object]:
    members = {member.name: member for member in declared}
    return {name: _push_value(members[name], text) if name in members else text for name, text in given.items()}


def _push_value(member: Member, text: str) -> object:
    numbers = numbers_of(member.type)
    if numbers is None:
        raise InvalidPushConstant(
            f"--push {member.name}={text}: {member.name!r} is {shown(str(member.type))}, which has structures in it",
            fix="call the kernel from Python",
            constant=member.name,
        )
    count = math.prod(numbers.shape)
    try:
        values = [numbers.scalar.parse(part) for part in text.split(",")]
    except ValueError as error:
        raise InvalidPushConstant(
            f"--push {member.name}={text}: {member.name!r} is {count} x {numbers.scalar} ({error})",
            fix=f"give {count} value(s), separated by commas",
            constant=member.name,
        ) from error
    if len(numbers.shape) > 1 and len(values) == count:
        return np.array(values, object).reshape(numbers.shape)
    return values if len(values) > 1 else values[0]


def _inputs(
    plan: BindingPlan, files: Mapping[str, str], counts: Mapping[str, str]
) -> tuple[list[NDArray[Any]], dict[str, int]]:
    _check_names("--in", files, plan.descriptors)
    _check_names("--count", counts, [binding for binding in plan.descriptors if binding.role is not BindingRole.INPUT])
    arrays = []
    out_shapes = {}
    for binding in plan.descriptors:
        if binding.name in files and binding.name in counts:
            raise InvalidCommand(f"{binding.name!r} has both --in and --count", fix="give one of them")
        if binding.name in files:
            arrays.append(input_array(files[binding.name], binding))
            continue
        count = _count(binding, counts)
        if binding.role is BindingRole.OUTPUT:
            out_shapes[binding.name] = count
        else:
            arrays.append(binding.zeros(count))
    return arrays, out_shapes


def _count(binding: Binding, counts: Mapping[str, str]) -> int:
    """Return the elements of a buffer that has no file: as given, else as the shader fixes them."""
    if binding.name in counts:
        text = counts[binding.name]
        if not text.isdecimal() or len(text) > _COUNT_DIGITS or not 1 <= int(text) < 2**32:
            raise InvalidCommand(
                f"--count {binding.name}={text} is not a number of elements", fix="give an integer from 1 to 4294967295"
            )
        return int(text)
    if binding.role is not BindingRole.INPUT and binding.element_count:
        return binding.element_count
    fix = f"add --in {binding.name}=FILE or --in {binding.name}=random:N"
    if binding.role is not BindingRole.INPUT:
        fix += f", or --count {binding.name}=N to start it with zeros"
    what = f"the {binding.subject} has {binding.role.value} {binding.name!r} at binding {binding.binding}"
    raise InvalidInput(
        f"{what}, and nothing was given for it",
        fix=fix,
        binding=binding.name,
    )


def _open_outputs(plan: BindingPlan, paths: Mapping[str, str], stack: ExitStack) -> dict[str, OutputFile | StandardOutput]:
    _check_names("--out", paths, [binding for binding in plan.descriptors if binding.role.produces_output])
    files: dict[str, OutputFile | StandardOutput] = {}
    for name, path in paths.items():
        files[name] = StandardOutput() if path == STANDARD else OutputFile(Path(path))
        stack.enter_context(files[name])
    return files


def _check_names(option: str, given: Iterable[str], bindings: Sequence[Binding]) -> None:
    names = [binding.name for binding in bindings]
    for name in given:
        if name not in names:
            raise InvalidInput(
                f"{option} names {name!r}, which is no such buffer of the shader",
                fix=f"name one of {', '.join(names)}" if names else f"leave {option} out",
                binding=name,
            )


def _named(plan: BindingPlan, results: NDArray[Any] | tuple[NDArray[Any], ...]) -> dict[str, NDArray[Any]]:
    outputs = [binding.name for binding in plan.descriptors if binding.role.produces_output]
    return dict(zip(outputs, results if isinstance(results, tuple) else (results,), strict=True))


def _described(
    results: Mapping[str, NDArray[Any]], files: Mapping[str, OutputFile | StandardOutput]
) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "file": str(files[name].path) if name in files else None,
        }
        for name, array in results.items()
    }


def _show(
    driver: Driver, kernel: Kernel, outputs: Mapping[str, dict[str, Any]], took: dict[str, Any] | None, *, as_json: bool
) -> None:
    report, trace = driver.report(), kernel.trace
    if as_json:
        cache = {"verdict": trace.verdict.name, "reason": trace.reason, "key": trace.key}
        print_json({**report, "cache": cache, "outputs": outputs, **({} if took is None else {"time": took})})
        return
    say(f"{report['device']} ({report['driver']}){', a software device' if report['is_software'] else ''}")
    say(f"cache: {trace.verdict.name.lower()} ({trace.reason})")
    for name, facts in outputs.items():
        say(f"{name}: {facts['dtype']} {facts['shape']} -> {printable(facts['file'] or 'not written (no --out)')}")
    for line in () if took is None else timing_lines(took):
        say(line)


MADE = ("random", "zeros", "ones", "arange")
_NUMBERS = "fiu"  # kinds of numpy
_MAX_DIGITS = 10


def input_array(text: str, binding: Binding) -> NDArray[Any]:
    """Return the array that ``--in NAME=TEXT`` names: ``KIND:SHAPE[:TYPE]`` of MADE, ``-`` or a file.

    Raises
    ------
    InvalidCommand
        If the shape or the type of what is to be made cannot be understood, or it is too large.
    FileUnusable
        If a file cannot be read.
    InvalidInput
        If raw bytes do not fit the binding.
    """
    kind, colon, rest = text.partition(":")
    if colon and kind in MADE:
        return _made(kind, rest, binding)
    return read_stdin_array() if text == STANDARD else read_array(Path(text), binding)


def _made(kind: str, rest: str, binding: Binding) -> NDArray[Any]:
    shape_text, _, type_text = rest.partition(":")
    given = f"--in {binding.name}={kind}:{rest}"
    shape, dtype = _shape(shape_text, given), _dtype(type_text, binding, given)
    byte_len = math.prod(shape) * dtype.itemsize
    if byte_len > MAX_BYTES:
        raise InvalidCommand(f"{given} has {byte_len} bytes, and a buffer at most {MAX_BYTES}", fix="give a smaller shape")
    try:
        return _filled(kind, shape, dtype, seed=binding.binding)
    except MemoryError as error:
        raise InvalidCommand(f"the host has no memory for {given} ({byte_len} bytes)", fix="give a smaller shape") from error


def _shape(text: str, given: str) -> tuple[int, ...]:
    parts = text.split("x")
    if not all(one.isdecimal() and one.isascii() and len(one) <= _MAX_DIGITS and int(one) for one in parts):
        raise InvalidCommand(f"{given} has no shape from 1 element up", fix="write it as random:1000 or random:64x32")
    return tuple(int(one) for one in parts)


def _dtype(text: str, binding: Binding, given: str) -> np.dtype[Any]:
    if not text:
        layout = binding.layout
        if binding.dtype is None and layout is not None and not (layout.header_bytes or layout.elements.is_structure):
            return layout.elements.dtype  # of vectors with gaps, or of matrices
        if binding.dtype is None:
            fix = f"add one, as in random:1000:uint8, or give a file: the elements of {binding.name!r} are no plain numbers"
            raise InvalidCommand(f"{given} has no type, and the shader's buffer tells none", fix=fix)
        return np.dtype(binding.dtype)
    try:
        dtype = np.dtype(text)
    except (TypeError, ValueError, SyntaxError):
        dtype = np.dtype(object)
    if dtype.kind not in _NUMBERS:
        raise InvalidCommand(f"{text!r} in {given} is no numeric type of numpy", fix="write float32, uint8 or their like")
    return dtype


def _filled(kind: str, shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
    """Return the array; random numbers are from 0 to 1, integers all that there are, and the same each time."""
    match kind:
        case "zeros":
            return np.zeros(shape, dtype)
        case "ones":
            return np.ones(shape, dtype)
        case "arange":
            with np.errstate(over="ignore"):
                return np.arange(math.prod(shape)).astype(dtype).reshape(shape)
    rng = np.random.default_rng(seed)
    if dtype.kind == "f":
        return rng.random(shape, np.float64 if dtype.itemsize > 4 else np.float32).astype(dtype, copy=False)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


# By the first word of a shader's name and by buffer: the push constants whose product is the number of elements read. Shaders
# of attention and of quantized weights are not here: several of their numbers depend on each other and on constants.
_READ_SO_FAR: dict[str, dict[str, tuple[str, ...]]] = {
    "saxpy": dict.fromkeys(("x", "y", "xv", "yv"), ("count",)),
    "copy": {"from": ("count",)},
    "byte": {"words": ("byte_count",)},
    "histogram": {"x": ("count",)},
    "reduce": {"x": ("count",)},
    "scan": {"x": ("count",)},
    "softmax": {"x": ("rows", "columns")},
    "layernorm": {"x": ("rows", "columns"), "weight": ("columns",), "bias": ("columns",)},
    "rmsnorm": {"x": ("rows", "columns"), "weight": ("columns",)},
    "matmul": {"a": ("m", "k"), "b": ("k", "n"), "parts": ("elements", "count")},
    "transpose": {"a": ("m", "n")},
}


def check_lengths(shader: str, push: Mapping[str, object], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Check that an included shader reads past none of the arrays, by buffer; raises InvalidInput."""
    each = 1 if shader.startswith("byte_") else 2 if "_f16" in shader else 4
    unit = "bytes" if each == 1 else "elements"
    for name, constants in _READ_SO_FAR.get(shader.partition("_")[0], {}).items():
        values = [push.get(constant) for constant in constants]
        numbers = [value for value in values if isinstance(value, int)]
        read = math.prod(numbers)
        if name not in arrays or len(numbers) < len(values) or arrays[name].nbytes >= read * each:
            continue
        given = " and ".join(f"--push {constant}={value}" for constant, value in zip(constants, values, strict=True))
        fix = f"give {constants[0]} the length of the shortest array" if len(constants) == 1 else "give smaller numbers"
        raise InvalidInput(
            f"{name} of {shader} has {arrays[name].nbytes // each} {unit}, and {given} {'has' if len(values) == 1 else 'have'} "
            f"it read {read}",
            fix=f"{fix}, or {name} {read} {unit}",
            binding=name,
        )


_BUSY_S = 0.1  # the clock of an idle device is low, and rises while it works
_SPENT_S = 1.0
_LEAST, _MOST = 3, 1000


def timed(call: Callable[[], object], bound: BoundKernel, runs: int, moved_bytes: int) -> dict[str, Any]:
    """Return medians and minima in ns of so many calls, and of so many runs on the device's clock (None where it has none).

    ``bound`` is the same dispatch on resident buffers. With ``runs`` 0 there are as many as take about a second, 3 at least and
    1000 at most. Before either the device is kept busy for 0.1 s. Raises InvalidInput if nothing runs.
    """
    if isinstance(bound.pipeline, NoDispatch):
        raise InvalidInput(
            "--time has nothing to time: there are 0 invocations, or a buffer has no elements", fix="leave --time out"
        )
    on_device = TimedDispatches([bound])
    _keep_busy(on_device)
    first_ns = _ns_of(call)
    runs = runs or min(max(round(_SPENT_S * 1e9 / first_ns), _LEAST), _MOST)
    calls = [_ns_of(call) for _ in range(runs)]
    _keep_busy(on_device)
    ticks = [one for one in (on_device.run().device_ns for _ in range(runs)) if one is not None]
    return {"runs": runs, "bytes": moved_bytes, "call": _summary(calls, moved_bytes), "device": _summary(ticks, moved_bytes)}


def timing_lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that show what ``timed`` returned."""
    yield f"time: {count(found['runs'], 'run')}, {human_bytes(found['bytes'])} in and out"
    for name, what in (("call", "whole call"), ("device", "on the device")):
        one = found[name]
        if one is None:
            yield f"  {what}: the device has no clock"
            continue
        median, least = (human_measure(one[key] / 1e9, "s") for key in ("median_ns", "min_ns"))
        rate = f", {human_measure(one['bytes_per_s'], 'B/s')}" if one["bytes_per_s"] else ""
        yield f"  {what}: median {median}, minimum {least}{rate}"


def _keep_busy(dispatches: TimedDispatches) -> None:
    until = time.monotonic() + _BUSY_S
    while time.monotonic() < until:
        dispatches.run()


def _ns_of(call: Callable[[], object]) -> int:
    began = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - began


def _summary(times: list[int], moved_bytes: int) -> dict[str, float] | None:
    if not times:
        return None
    median = float(np.median(times))
    rate = round(moved_bytes * 1e9 / median, 1) if median else 0.0
    return {"median_ns": round(median), "min_ns": min(times), "bytes_per_s": rate}
