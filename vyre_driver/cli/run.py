"""``vyre-driver run``: any compute shader, or program, on files, on what is piped in, or on made-up numbers."""

from __future__ import annotations

import argparse
import math
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.binding.plan import BindingPlan, BindingRole
from vyre_driver.cli import run_timing
from vyre_driver.cli.files import STANDARD, OutputFile, StandardOutput
from vyre_driver.cli.inputs import input_array
from vyre_driver.cli.options import add_device, add_json, pairs, print_json, printable, say, tell, whole_numbers
from vyre_driver.cli.run_lengths import check_lengths
from vyre_driver.cli.shaders import add_shader, is_included, load_code
from vyre_driver.driver import Driver
from vyre_driver.errors import InvalidCommand, InvalidInput, InvalidPushConstant, InvalidSpecialization, with_article
from vyre_driver.spirv.layout import numbers_of, shown
from vyre_driver.spirv.module import SpirvModule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.binding.plan import Binding
    from vyre_driver.ir.program import Program
    from vyre_driver.kompute.buffer import Buffer
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
            took = run_timing.timed(call, kernel.bind(*buffers, **grid, push_constants=push), options.time, moved)
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
    for line in () if took is None else run_timing.lines(took):
        say(line)
