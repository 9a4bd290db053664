"""Every backend that is here answers as the reference does, and the package notices one that does not."""

from __future__ import annotations

import json
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from blake3 import blake3

from vyre_driver.backends import BackendRegistration, register_backend
from vyre_driver.backends.reference import interpret
from vyre_driver.backends.reference import run as run_reference
from vyre_driver.backends.reference.backend import ReferenceBackend
from vyre_driver.backends.registry import unregister_backend
from vyre_driver.cli import main
from vyre_driver.conformance.adapters import AcquiredBackend, open_backend, run_reference_sequentially
from vyre_driver.conformance.case import ELEMENTARY, EXACT, Case, Tolerance
from vyre_driver.conformance.cases import hand_written
from vyre_driver.conformance.generate import GENERATOR_VERSION, generate
from vyre_driver.conformance.options import Options
from vyre_driver.conformance.patterns import NUMPY
from vyre_driver.conformance.suite import ask, difference, float_differences, random_cases, shrunk
from vyre_driver.errors import DeviceLost, DispatchFailed, UnsupportedFeature
from vyre_driver.ir import builders as ir
from vyre_driver.ir import gid_x, load, store
from vyre_driver.ir.arithmetic import LitI32, LitU32
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import (
    Atomic,
    Binary,
    Cast,
    Load,
    SubgroupBallot,
    SubgroupLocalId,
    SubgroupReduce,
    SubgroupShuffle,
    SubgroupSize,
)
from vyre_driver.ir.extensions import EXTENSIONS, application
from vyre_driver.ir.nodes import Assign, Barrier, If, Loop, Return
from vyre_driver.ir.operators import BinOp, SubgroupOp, UnOp
from vyre_driver.ir.program import Program
from vyre_driver.ir.terms import terms_within
from vyre_driver.ir.validation.validate import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from vyre_driver.ir.arithmetic import Expr

EVERYTHING = Options(subgroups=True)
OUT = BufferDecl.output("out", 0, DataType.F32).with_count(1)
# Operators of ours that random programs leave out: those that tell zeros apart, divide, or take bf16.
BY_HAND = {
    *("power", "atan2", "hypot", "copysign", "remainder", "floor_divide", "asinh", "acosh", "atanh"),
    *("f16_to_f32", "f32_to_f16", "bf16_to_f32", "f32_to_bf16", "i64_to_f32", "bitcast<u64>", "bitcast<i64>"),
}

# BLAKE3 of program, inputs and grid of a seed: the same everywhere, or a reported seed would mean nothing.
GOLDEN = [
    "928042f17d9665c5",
    "ace1a488fc2b3e9e",
    "5176da9b950c5acd",
    "f0df1826888e4f4b",
    "c39dd916de807bf7",
    "79042b7d3229f083",
    "604600fe1d2999a5",
    "e5f6315b9cc4c126",
    "bf94865d473d84fc",
    "8068dc2421a761e2",
    "c35097706e92db73",
    "a5cc4db9908d3a68",
    "a479e94051c8443d",
    "0fc55d612db06fa0",
    "0e20a13cc01d64ca",
    "a4d928034ca82ba8",
    "e5bd227ead2c7e9a",
    "f7ff12c130b95623",
    "cc6f2733aff46859",
    "bae17a532022bd36",
]
GOLDEN_OF_OPTIONS = ["5062bf520b7f5d91", "45cce2238e1d9f3f", "a62a4827eb564ca4"]


def case_digest(case: Case) -> str:
    data = blake3(case.program.digest())
    for array in case.inputs:
        data.update(f"{array.dtype.str}{array.shape}".encode())
        data.update(array.tobytes())
    data.update(repr(case.grid).encode())
    return data.hexdigest()[:16]


def test_a_seed_gives_the_same_program_everywhere() -> None:
    """When this fails, raise GENERATOR_VERSION with the digests: seeds of before mean other programs."""
    assert (GENERATOR_VERSION, [case_digest(generate(seed)) for seed in range(20)]) == (4, GOLDEN)
    several = (EVERYTHING, Options(constants=True), Options(u64=False, narrow=False))
    assert [case_digest(generate(7, options)) for options in several] == GOLDEN_OF_OPTIONS


@pytest.mark.parametrize(("seed", "count"), [(0, 60), pytest.param(60, 240, marks=pytest.mark.thorough)])
def test_the_reference_gives_the_same_whether_invocations_run_together_or_alone(seed: int, count: int) -> None:
    """Programs of full size: tests/properties/test_reference_twin.py, and ``make conform``."""
    options = Options(subgroups=True, statements=6, depth=3)
    report = ask(run_reference_sequentially, random_cases(seed, count, options))
    assert (report.asked, report.agreed, report.failures) == (count, count, [])


@pytest.mark.thorough  # tests/properties/test_reference_twin.py has the slow twin's answer to each
def test_the_reference_gives_the_same_of_the_hand_written_cases_too() -> None:
    cases = list(hand_written(EVERYTHING))
    report = ask(run_reference_sequentially, cases)
    assert (report.asked, report.agreed, report.failures) == (len(cases), len(cases), [])


def test_generated_programs_are_valid_and_do_not_depend_on_the_order_of_invocations() -> None:
    for case in random_cases(1000, 60, EVERYTHING):
        validate(case.program)
        found = interpret(case.program, case.inputs, grid=case.grid)
        assert (found.order_mattered, found.stores_met) == (False, False), case.program


def test_generated_programs_hold_every_kind_of_statement_and_operator() -> None:
    terms = [term for case in random_cases(0, 400, EVERYTHING) for term in terms_within(*case.program.entry)]
    kinds = {type(term) for term in terms}
    operators = {term.op for term in terms if hasattr(term, "op")}
    types = {term.dtype for term in terms if isinstance(term, Load)}
    waves = {BinOp.SHUFFLE, BinOp.BALLOT, BinOp.WAVE_REDUCE, BinOp.WAVE_BROADCAST}
    assert {Assign, Barrier, If, Loop, Return, Atomic, Load, Binary} <= kinds
    assert set(BinOp) - operators == waves
    assert {UnOp.SQRT, UnOp.ROUND, UnOp.CLZ, UnOp.IS_NAN, UnOp.REVERSE_BITS} <= operators
    assert set(SubgroupOp) <= operators
    assert {SubgroupReduce, SubgroupBallot, SubgroupShuffle, SubgroupLocalId, SubgroupSize} <= kinds
    assert types == {*NUMPY} - {DataType.BF16, DataType.F64}
    found = {one.operator.name for term in terms if isinstance(term, Cast) and (one := application(term))}
    assert {name for name in EXTENSIONS if "f64" not in name} - found == BY_HAND
    assert {"counters", "tally"} == {term.buffer for term in terms if isinstance(term, Atomic)}


def test_programs_about_constants_divide_by_positive_and_negative_ones_and_take_minima_of_it() -> None:
    """The shape that a driver was wrong about comes up, with constants of every kind and hidden ones."""
    terms = [term for case in random_cases(0, 100, Options(constants=True)) for term in terms_within(*case.program.entry)]
    divided = [
        term for term in terms if isinstance(term, Binary) and term.op in {BinOp.DIV, BinOp.MOD} and term.dtype == DataType.I32
    ]
    literal = {term.right.value for term in divided if isinstance(term.right, LitI32)}
    hidden = {type(term.right) for term in divided}
    limited = [
        term
        for term in terms
        if isinstance(term, Binary)
        and term.op is BinOp.MIN
        and isinstance(term.left, Binary)
        and term.left.op is BinOp.MIN
        and term.left.dtype == DataType.I32
    ]
    assert {1, -1, 2, -2, 3, -3, 2**31 - 1, -(2**31)} <= literal
    assert ({LitI32, Cast, Binary} <= hidden, len(divided) > 300, len(limited) > 40) == (True, True, True)


def test_programs_without_narrow_and_wide_types_have_none() -> None:
    cases = random_cases(0, 60, Options(u64=False, narrow=False))
    types = {one.element for case in cases for one in case.program.buffers}
    assert types == {DataType.U32, DataType.I32, DataType.F32, DataType.Bool}


def test_every_hand_written_case_has_a_name_of_its_own() -> None:
    names = [case.name for case in hand_written(EVERYTHING)]
    assert len(set(names)) == len(names)


class Wrong:
    """The reference, but for one thing; its code is the same for every program."""

    def __init__(self, spoil: Any) -> None:  # noqa: ANN401 -- a function of program and outputs
        self.spoil = spoil

    def __call__(self, program: Program, inputs: Sequence[NDArray[Any]], **how: Any) -> Sequence[NDArray[Any]]:  # noqa: ANN401 -- of a backend
        return self.spoil(program, run_reference(program, inputs, **how))

    def assembly(self, _program: Program) -> str:
        return "OpNop"


def uses(program: Program, op: BinOp) -> bool:
    return any(isinstance(term, Binary) and term.op is op for term in terms_within(*program.entry))


def spoil_rotations(program: Program, outputs: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
    return [~one.view(np.uint8) for one in outputs] if uses(program, BinOp.ROTATE_LEFT) else outputs


def test_a_wrong_backend_is_found_and_what_it_fails_at_is_shrunk() -> None:
    report = ask(Wrong(spoil_rotations), random_cases(0, 60), max_failures=1)
    (failure,) = report.failures
    assert failure.smallest is not None
    small = failure.smallest.program
    assert uses(small, BinOp.ROTATE_LEFT)
    assert small.stats().node_count <= 3  # a region, a declaration, and an assignment to it
    assert failure.smallest.grid == (1, 1, 1)
    assert str(report).splitlines()[-1] == f"failed {failure.case}: {failure.why}"
    text = failure.text
    assert (text.startswith(f"{failure.case}: "), "rotate_left(" in text, text.endswith("OpNop")) == (True, True, True)


class Losing:
    """The reference, until it is asked what ``loses`` says: from then on its device is gone."""

    def __init__(self, loses: Callable[[Program], bool], spoil: Any = lambda _program, outputs: outputs) -> None:  # noqa: ANN401 -- as of Wrong
        self.right, self.loses = Wrong(spoil), loses
        self.lost_with: list[Program] = []

    def __call__(self, program: Program, inputs: Sequence[NDArray[Any]], **how: Any) -> Sequence[NDArray[Any]]:  # noqa: ANN401 -- of a backend
        if self.lost_with or self.loses(program):
            self.lost_with.append(program)
            raise DeviceLost("it is gone", fix="make a new Driver")
        return self.right(program, inputs, **how)


def test_a_backend_whose_device_is_lost_is_asked_nothing_more_and_that_case_is_not_shrunk() -> None:
    cases = [generate(seed) for seed in range(5)]
    backend = Losing(lambda program: program == cases[2].program)
    report = ask(backend, cases)
    (failure,) = report.failures
    assert (report.asked, report.agreed, len(backend.lost_with)) == (3, 2, 1)
    assert (failure.case, failure.smallest, failure.lost_with) == ("seed 2", cases[2], None)
    assert failure.why == "DeviceLost 2006: it is gone. Fix: make a new Driver."
    assert failure.text.splitlines()[1] == f"shrunk, with a grid of {failure.grid} workgroups: {failure.why}"


def test_a_device_that_is_lost_while_a_case_is_shrunk_ends_that_and_the_smaller_case_is_told_too() -> None:
    """The program that lost it is the one to look at; what it failed at first has been shrunk as far as it went."""
    backend = Losing(lambda program: program.stats().node_count < 6, spoil_rotations)
    report = ask(backend, random_cases(0, 60), max_failures=9)
    (failure,) = report.failures
    assert failure.smallest is not None is not failure.lost_with
    assert (failure.lost_with.program, len(backend.lost_with)) == (backend.lost_with[0], 1)
    before = generate(int(failure.case.removeprefix("seed "))).program.stats().node_count
    assert 6 <= failure.smallest.program.stats().node_count < before
    assert uses(failure.smallest.program, BinOp.ROTATE_LEFT)
    head, _, last = failure.text.rpartition("the device was lost with this smaller one, in a grid of ")
    assert (str(failure.smallest.program) in head, str(failure.lost_with.program) in last) == (True, True)


WORDS = BufferDecl.read_write("words", 0, DataType.U32).with_count(4)


def limit(stop: Expr) -> int:
    """The most that a loop's bound can be, as far as it tells by itself."""
    if isinstance(stop, LitU32):
        return stop.value
    assert isinstance(stop, Binary)
    assert stop.op in {BinOp.MOD, BinOp.MIN, BinOp.BIT_AND}
    assert isinstance(stop.right, LitU32)
    return stop.right.value


@pytest.mark.parametrize("op", [BinOp.MOD, BinOp.MIN, BinOp.BIT_AND])
def test_shrinking_never_takes_the_limit_off_a_loops_bound(op: BinOp) -> None:
    """What the reference ends soon runs minutes on a device that is wrong about the bound, which may be lost with it."""
    given = ir.binop(BinOp.MOD, ir.load(WORDS, 0) + ir.load(WORDS, 1), ir.u32(10**9))
    body = [ir.loop("k", 1, ir.binop(op, given, ir.u32(6)), lambda k: [ir.store(WORDS, k, k)])]
    case = Case("loop", Program.wrapped([WORDS], (1, 1, 1), body), (np.arange(4, dtype=np.uint32),), (1, 1, 1))
    stops: set[Expr] = set()

    def fails(smaller: Case) -> bool:
        found = [term.stop for term in terms_within(*smaller.program.entry) if isinstance(term, Loop)]
        stops.update(found)
        return bool(found) and not isinstance(found[0], LitU32)

    (loop,) = (term for term in terms_within(*shrunk(case, fails).program.entry) if isinstance(term, Loop))
    assert (max(map(limit, stops)), loop.stop) == (6, ir.binop(op, ir.u32(0), ir.u32(0)))


def test_a_bound_that_nothing_limits_is_made_a_literal_or_left_as_it_is() -> None:
    stop = ir.load(WORDS, ir.load(WORDS, 1))
    body = [ir.loop("k", 0, stop, lambda k: [ir.store(WORDS, k, k)])]
    case = Case("loop", Program.wrapped([WORDS], (1, 1, 1), body), (np.zeros(4, np.uint32),), (1, 1, 1))
    tried: list[Case] = []
    assert shrunk(case, lambda smaller: bool(tried.append(smaller))) == case
    stops = {term.stop for one in tried for term in terms_within(*one.program.entry) if isinstance(term, Loop)}
    assert stops == {stop, ir.u32(0), ir.u32(1)}


def test_a_backend_that_raises_has_failed_and_one_that_refuses_has_not() -> None:
    def failing(program: Program, *_: object, **_how: object) -> Sequence[NDArray[Any]]:
        if program.workgroup_size == (1, 1, 1):
            raise UnsupportedFeature("no single invocations", fix="use more")
        raise DispatchFailed("the device is tired", fix="wait")

    cases = [generate(seed) for seed in range(40)]
    alone = sum(case.program.workgroup_size == (1, 1, 1) for case in cases)
    report = ask(failing, cases, max_failures=100, shrink=False)
    assert (report.agreed, report.unsupported, len(report.failures)) == (0, {"no single invocations": alone}, 40 - alone)
    assert report.failures[0].why == "DispatchFailed 1005: the device is tired. Fix: wait."
    assert alone > 0


def one(bits: int, tolerance: Tolerance = EXACT) -> tuple[Case, list[NDArray[Any]]]:
    program = Program.wrapped([OUT], (1, 1, 1), [ir.store(OUT, 0, ir.f32(0.0))])
    return Case("one", program, (), (1, 1, 1), tolerance), [np.array([bits], np.uint32).view(np.float32)]


@pytest.mark.parametrize(
    ("expected", "received", "agrees"),
    [
        (0x3F800000, 0x3F800000, True),
        (0x3F800000, 0x3F800004, True),
        (0x3F800000, 0x3F800005, False),
        (0x00000002, 0x80000002, True),
        (0x00000002, 0x80000003, False),
        (0x00000000, 0x80000000, True),
        (0x7F7FFFFF, 0x7F800000, True),
        (0x7FC00000, 0xFFC12345, True),
        (0x7FC00000, 0x7F800000, False),
        (0x7F800000, 0x7FC00000, False),
        (0x00000000, 0x007FFFFF, False),
    ],
)
def test_f32_are_compared_by_steps_of_the_last_place(expected: int, received: int, agrees: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    case, wanted = one(expected, ELEMENTARY)
    found = difference(case, wanted, one(received)[1])
    assert (found is None) is agrees


def test_an_absolute_tolerance_counts_beside_the_steps() -> None:
    words = [np.array([1.0, 1e-6, 1e-6], np.float32).view(np.uint32), np.array([1.0, -1e-6, 1e-2], np.float32).view(np.uint32)]
    assert float_differences(*words, Tolerance(0, 2.0**-11)).tolist() == [False, False, True]


def test_a_difference_is_told_with_its_place_and_both_values() -> None:
    words = BufferDecl.read_write("words", 3, DataType.U16)
    case = Case("words", Program.wrapped([words], (1, 1, 1), []), (), (1, 1, 1))
    expected, received = np.array([1, 2, 3], np.uint16), np.array([1, 5, 7], np.uint16)
    assert (
        str(difference(case, [expected], [received]))
        == "words[1] is 5 (0x00000005), and should be 2 (0x00000002) (2 elements differ)"
    )
    assert str(difference(case, [expected], [received[:1]])) == "words[0] is 2 bytes, and should be 6 bytes"
    assert str(difference(case, [expected], [])) == "outputs[0] is 0 arrays, and should be 1 arrays"
    f32_case, wanted = one(0x3F800000)
    told = str(difference(f32_case, wanted, one(0x40000000)[1]))
    assert told == "out[0] is 2.0 (0x40000000), and should be 1.0 (0x3f800000)"


def test_the_verb_tells_what_came_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["conform", "--backend", "cpu-ref", "--count", "3", "--seed", "7", "--no-cases", "--json"])
    found = json.loads(capsys.readouterr().out)
    del found["seconds"]
    facts = {"schema": 1, "backend": "cpu-ref", "seed": 7, "count": 3}
    assert (status, found) == (0, {**facts, "asked": 3, "agreed": 3, "unsupported": {}, "failed": []})


def test_the_verb_prints_a_failure_and_ends_with_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from vyre_driver.conformance import adapters

    def spoil(_program: Program, outputs: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        return [~one.view(np.uint8) for one in outputs]

    monkeypatch.setattr(adapters, "run_reference_sequentially", Wrong(spoil))
    status = main(["conform", "--backend", "cpu-ref", "--count", "1", "--no-cases"])
    printed = capsys.readouterr().out
    assert (status, printed.startswith("seed 0: "), "asked 1, agreed 0, failed 1\n" in printed) == (1, True, True)


def test_numbers_below_zero_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "--backend", "cpu-ref", "--count", "-1"]) == 2
    assert "error 2501: --seed 0 --count -1 is below 0" in capsys.readouterr().err
    assert main(["conform", "--backend", "cpu-ref", "--max-failures", "0"]) == 2
    assert "error 2501: --max-failures 0 is below 1" in capsys.readouterr().err
    assert main(["conform", "--backend", "cpu-ref", "--jobs", "0"]) == 2
    assert "error 2501: --jobs 0 is below 1" in capsys.readouterr().err


def test_the_example_for_backends_of_other_packages_runs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text("utf-8")
    example = text.partition("```python\n")[2].partition("```")[0]
    found: dict[str, Any] = {}
    exec(compile(example, "docs/conformance.md", "exec"), found)  # noqa: S102 -- our own text
    asked = 20 + len(list(hand_written(Options())))
    assert (found["report"].asked, found["report"].agreed) == (asked, asked)


class Mine(ReferenceBackend):
    """A backend that somebody has made."""

    id = "mine"


class Forgetful(Mine):
    """One that forgets what it computed."""

    id = "wrong"

    def dispatch(self, *given: object, **named: object) -> tuple[NDArray[Any], ...]:
        return tuple(np.zeros_like(one) for one in super().dispatch(*given, **named))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    for kind in (Mine, Forgetful):
        register_backend(BackendRegistration(kind.id, lambda _, kind=kind: kind(), dispatches=True))  # type: ignore[misc]
    yield
    for kind in (Mine, Forgetful):
        unregister_backend(kind.id)


def test_one_that_is_right_agrees_in_every_case_with_subgroups_too() -> None:
    options = Options(subgroups=True)
    with ExitStack() as stack:
        mine = open_backend("mine", stack)
        reports = [ask(mine, islice(hand_written(options), 0, None, 4)), ask(mine, random_cases(0, 20, options))]
    assert [(one.failures, one.unsupported, one.asked - one.agreed) for one in reports] == [([], {}, 0)] * 2
    assert getattr(mine, "subgroup_lanes", 0) == 32


def test_it_is_closed_with_the_stack() -> None:
    with ExitStack() as stack:
        mine = open_backend("mine", stack)
    case = next(random_cases(0, 1))
    with pytest.raises(DispatchFailed, match="closed"):
        mine(case.program, case.inputs, grid=case.grid, element_counts=case.element_counts)


def test_an_output_that_run_time_sizes_comes_between_the_inputs_where_its_binding_is() -> None:
    u32 = DataType.U32
    a, out, b = BufferDecl.read("a", 0, u32), BufferDecl.output("out", 1, u32), BufferDecl.read("b", 2, u32)
    program = Program.wrapped([a, out, b], (4, 1, 1), [store(out, gid_x(), load(a, gid_x()) - load(b, gid_x()))])
    x, y = np.array([9, 8], np.uint32), np.array([1, 2, 3], np.uint32)
    found = AcquiredBackend(Mine())(program, [x, y], grid=(1, 1, 1), element_counts={"out": 2})
    assert [one.tolist() for one in found] == [[8, 6]]


def test_the_verb_asks_any_backend_by_its_id(capsys: pytest.CaptureFixture[str]) -> None:
    ask_it = ["--count", "2", "--no-cases"]
    statuses = [main(["conform", "--backend", name, *ask_it]) for name in ("mine", "wrong", "mime")]
    printed = capsys.readouterr()
    assert (statuses, "asked 2, agreed 2, failed 0" in printed.out, "asked 2, agreed 0, failed 2" in printed.out) == (
        [0, 1, 2],
        True,
        True,
    )
    assert "error 2014: no backend has the id 'mime'" in printed.err
    assert "near it: mine" in printed.err
