"""The validator's rules by name and code, and its findings.

Codes that begin with V are upstream's (spec item 1.8; V022 means two things there). Upstream's rules without a code, and those
of ours that close its holes, have codes that begin with R. Codes are only ever added (docs/validation-rules.md).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from vyre_driver.errors import InvalidProgram
from vyre_driver.ir.dtypes import DataType, spelling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


MAX_PROBLEMS = 1000
_LISTED = 20
_NAME_CHARACTERS = 60
_PATH_CHARACTERS = 200


class Rule(enum.Enum):
    """A rule: its code, and what it refuses."""

    SHADOWING = ("V008", "a let or loop variable with the name of a variable of an enclosing body")
    ATOMIC_ACCESS = ("V009", "an atomic on a buffer that is not read-write")
    DIVERGENT_BARRIER = ("V010", "a barrier that some invocations may not reach")
    LOOP_VARIABLE = ("V011", "an assignment to the variable of a loop")
    CAST = ("V012", "a cast that is not in the cast table")
    BYTES_ELEMENT = ("V013", "a load or store of a bytes buffer without bytes_extraction, and any atomic on one")
    ATOMIC_ELEMENT = ("V014", "an atomic on elements that do not have it: u32, i32 and f32 have some")
    UNKNOWN_CALL = ("V016", "a call of an operation that the given signatures do not name")
    NESTING = ("V018", "nodes that nest more than 64 deep")
    NODE_COUNT = ("V019", "more than 100000 nodes")
    CALL_ARITY = ("V020", "a call with another number of arguments than its signature has")
    CALL_TYPE_NAME = ("V021", "a call whose signature spells a type that does not exist")
    CALL_ARGUMENT = ("V022", "a call with an argument of another type than its signature has")
    OUTPUTS = ("V022", "more than one buffer marked is_output")
    CAST_TO_BYTES = ("V023", "a cast of another type to bytes")
    ATOMIC_INDEX = ("V027", "an atomic's index that is not u32")
    FMA = ("V028", "an operand of fma that is not f32")
    SELECT_ARMS = ("V029", "a select between values of different types")
    OPAQUE_EXPRESSION = ("V030", "an opaque expression without kind, or a 64-bit literal that is not 8 bytes")
    OPAQUE_NODE = ("V031", "an opaque node without kind")
    LET_TWICE = ("V032", "two lets of one name in one body")
    EXPRESSION_DEPTH = ("V033", "expressions that nest more than 128 deep")
    CAST_TARGET = ("V034", "a cast to a type that the device does not have")
    STORE_RANGE = ("V036", "a store to a constant index that is negative, or not below the static count")
    SUBGROUP = ("V041", "a subgroup expression on a device without subgroup operations")
    ATOMIC_ORDERING = ("V042", "an atomic ordered grid_sync")
    BARRIER_ORDERING = ("V043", "a barrier ordered relaxed")
    ZERO_DIVISOR = ("V044", "a division or remainder by a literal zero, cast or not")
    VALUE_TYPE = ("V045", "an assigned or stored value of another type than the variable or the element has")
    COLLECTIVE = ("V046", "a collective the device does not have, on unknown or workgroup memory, or between element types")
    SUBGROUP_BITS = ("V047", "a subgroup reduction by and, or or xor of f32")
    BUFFER_REFERENCE = ("V051", "a buffer reference elsewhere than as an argument of a call")
    REFERENCED_BUFFER = ("V052", "a reference to a buffer that is not declared")
    BUFFER_ARGUMENT = ("V053", "a value as an argument for which the signature says buffer<T>")
    BUFFER_ARGUMENT_TYPE = ("V054", "a reference to a buffer of other elements than the signature says")

    ENTRY = ("R001", "an entry without nodes, or a top-level node that is not a region")
    WORKGROUP_SIZE = ("R002", "a workgroup dimension of 0")
    BUFFER_NAME = ("R003", "two buffers of one name")
    BINDING = ("R004", "two buffers outside workgroup memory with one binding number")
    WORKGROUP_COUNT = ("R005", "a workgroup buffer of 0 elements")
    OUTPUT_ELEMENT = ("R006", "an output buffer of array or tensor elements")
    ELEMENT_LAYOUT = ("R007", "an element type that cannot be laid out")
    OUTPUT_RANGE = ("R008", "an output byte range that ends before it starts, or beyond the buffer")
    UNDECLARED = ("R009", "a variable that no let or loop around it declares")
    UNKNOWN_BUFFER = ("R010", "a buffer that is not declared")
    NOT_WRITABLE = ("R011", "a write to a buffer that is read-only or uniform")
    INDEX = ("R012", "an index of a load or store, a lane, an offset, a size or a trap's address that is not u32")
    CONDITION = ("R013", "a condition of an if, select or ballot that is neither u32 nor bool")
    LOOP_BOUND = ("R014", "a bound of a loop that is not u32")
    OPERAND = ("R015", "an operator on types that it does not take")
    UNREACHABLE = ("R016", "nodes after a return in the same body")
    AXIS = ("R017", "an axis over 2")
    INDIRECT_OFFSET = ("R018", "an indirect dispatch whose offset is not a multiple of 4 bytes")
    TAG = ("R019", "an asynchronous copy or wait with an empty tag")
    HAZARD = ("R020", "a buffer used both plainly, be it for its length, and by atomics without a barrier between")
    SELF_EXCLUSIVE = ("R021", "two top-level regions of one generator in a program that is not composable with itself")
    LINEAR = ("R022", "a linear buffer not named once, an affine one named again, a relevant one never named")
    SHAPE = ("R023", "a static count for which the shape predicate does not hold")
    ATOMIC_OPERAND = ("R024", "an atomic whose value or expected value is not u32, or is missing, or is too much")
    SUBGROUP_OPERAND = ("R025", "a subgroup reduction of values that are not u32, i32, u64 or f32")
    CALL_DEPTH = ("R026", "operations that call each other more than 32 deep")
    DEVICE_WORKGROUP = ("R027", "a workgroup larger than the device allows")
    DEVICE_SHARED = ("R028", "more workgroup memory than the device has")
    DEVICE_BUFFER = ("R029", "a buffer of a static size that the device cannot bind")
    DEVICE_TYPE = ("R030", "values of a type that the device does not have")
    DEVICE_OPERATION = ("R031", "indirect dispatch or a trap on a device that has none")

    PUSHED = ("R032", "a push buffer that is no uniform, is an output, has no count, or holds a type that is not pushed")
    LOCAL = (
        "R034",
        "memory of an invocation's own that takes over 64 KiB with the rest of it, or is copied or changed by an atomic",
    )

    ATOMIC_WORKGROUP = ("V025", "nothing: an atomic on workgroup memory, which upstream refuses, is a warning")
    NARROWING = ("V035", "nothing: an integer cast that drops bits is a warning")
    PUSHED_BARRIER = ("R033", "nothing: a barrier that is reached by all because of what is pushed is a warning")
    LOCAL_UPSTREAM = ("R035", "nothing: memory of an invocation's own, which to upstream is workgroup memory, is a warning")

    def __init__(self, code: str, refuses: str) -> None:
        """Keep both by name."""
        self.code = code
        self.refuses = refuses


class Problem(NamedTuple):
    """One thing that a rule refuses.

    ``rule`` is the code, ``path`` names the place from the program down, by field names: ``body[3].then[0].value`` (from inside
    the root region, where the program has one), ``entry[1]``, ``buffers[0]``, ``workgroup_size[2]``.
    """

    rule: str
    path: str
    message: str
    fix: str


class Findings:
    """What one validation found, in the order of the walk: the first MAX_PROBLEMS problems, and warnings."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.total = 0

    def add(self, rule: Rule, path: str | Callable[[], str], message: str, fix: str) -> None:
        """Note a problem; ``path`` may be a function, asked only when the problem is kept."""
        self.total += 1
        self.keep(self.problems, rule.code, path, message, fix)

    def warn(self, rule: Rule, path: str | Callable[[], str], message: str, fix: str) -> None:
        """Note what is allowed, and perhaps a mistake."""
        self.keep(self.warnings, rule.code, path, message, fix)

    def keep(self, noted: list[Problem], code: str, path: str | Callable[[], str], message: str, fix: str) -> None:
        """Add to a list of problems or warnings, which holds MAX_PROBLEMS at most."""
        if len(noted) < MAX_PROBLEMS:
            noted.append(Problem(code, path if isinstance(path, str) else path(), message, fix))


def refuse(problems: Sequence[Problem], total: int) -> NoReturn:
    """Raise InvalidProgram (1006) with the problems that were found, the first of ``total``."""
    if total == 1:
        text, fix = _line(problems[0]), problems[0].fix
    else:
        lines = [f"\n  {_line(problem)} ({problem.fix})" for problem in problems[:_LISTED]]
        rest = f"\n  and {total - _LISTED} more" if total > _LISTED else ""
        text, fix = f"the program breaks rules in {total} places:{''.join(lines)}{rest}", "correct each place as it says"
    raise InvalidProgram(text, fix=fix, problems=tuple(problems))


def _line(problem: Problem) -> str:
    path = problem.path
    if len(path) > _PATH_CHARACTERS:
        path = f"{path[: _PATH_CHARACTERS // 2]}...{path[-_PATH_CHARACTERS // 2 :]}"
    return f"{problem.rule} at {path}: {problem.message}"


def quoted(name: str) -> str:
    """Return a name for a message, cut at 60 characters."""
    return repr(name if len(name) <= _NAME_CHARACTERS else f"{name[:_NAME_CHARACTERS]}...")


def spelled(dtype: DataType | None) -> str:
    """Return a type for a message, cut at 60 characters."""
    text = "an unknown type" if dtype is None else spelling(dtype, _NAME_CHARACTERS)  # each parameter has a character or more
    return text if len(text) <= _NAME_CHARACTERS else f"{text[:_NAME_CHARACTERS]}..."
