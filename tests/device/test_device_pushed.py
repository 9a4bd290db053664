"""Programs that push numbers: called, bound, batched, tuned and shown as a shader with push constants is."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vyre_driver import Driver, acquire
from vyre_driver.autotune.search.outcomes import Budget
from vyre_driver.autotune.store.store import AutotuneStore
from vyre_driver.errors import InvalidInput, InvalidPushConstant
from vyre_driver.ir import BufferDecl, DataType, Program, buf_len, cast, gid_x, if_, load, select, store
from vyre_driver.ir.workgroup_freedom import why_workgroup_is_fixed

pytestmark = pytest.mark.device

if TYPE_CHECKING:
    from vyre_driver.runtime.kernel import Kernel

F32 = DataType.F32
X, Y = BufferDecl.read("x", 0, F32), BufferDecl.read_write("y", 1, F32)
ALPHA, ON = BufferDecl.push("alpha", 2, F32), BufferDecl.push("on", 3, DataType.Bool)
I = gid_x()  # noqa: E741 -- as kernels have it
SAXPY = Program.wrapped(
    [X, Y, ALPHA],
    (64, 1, 1),
    [if_(I < buf_len(Y), [store(Y, I, load(ALPHA, 0) * load(X, I) + load(Y, I))])],  # noqa: SIM300 -- as kernels have it
)
x, y = np.arange(5, dtype=np.float32), np.ones(5, np.float32)


@pytest.fixture
def saxpy(driver: Driver) -> Kernel:
    return driver.compile(SAXPY)


def test_a_kernel_is_called_with_numbers_by_name(saxpy: Kernel) -> None:
    calls = [
        saxpy(x, y, alpha=2.0),
        saxpy(x, y, alpha=2),
        saxpy(x, y, push_constants={"alpha": np.float32(2)}),
        saxpy(x=x, y=y, alpha=2.0),
        saxpy(x, y=y, alpha=2.0, label="named", strict=True),
        saxpy(x, y.tobytes(), alpha=2.0, split=True),
    ]
    assert [one.tolist() for one in calls] == [(2 * x + y).tolist()] * 6
    assert [saxpy(x, y, alpha=k / 2).tolist() for k in range(3)] == [(k / 2 * x + y).tolist() for k in range(3)]


def test_a_call_of_a_form_that_was_proven_packs_other_numbers_beside_other_counts(saxpy: Kernel) -> None:
    """The counts of the call are pushed behind its numbers, whichever call it was proven by."""
    longer = np.arange(100, dtype=np.float32)
    for _ in range(2):
        assert saxpy(x, y, alpha=3.0).tolist() == (3 * x + y).tolist()
        assert saxpy(longer, longer, alpha=4.0).tolist() == (5 * longer).tolist()
    assert saxpy(x[:2], y, alpha=5.0).tolist() == [1.0, 6.0, 1.0, 1.0, 1.0]


def test_arrays_by_name_leave_the_counts_of_a_program_that_pushes_nothing_else_alone(driver: Driver) -> None:
    doubled = Program.wrapped([X, Y], (64, 1, 1), [store(Y, I, load(X, I) * 2.0)])
    kernel = driver.compile(doubled)
    assert [kernel(x=x, y=y).tolist(), kernel(x[:3], y=y).tolist()] == [(2 * x).tolist(), [0.0, 2.0, 4.0, 0.0, 0.0]]


def test_a_kernel_says_what_it_takes(saxpy: Kernel) -> None:
    assert (saxpy.signature, [one.name for one in saxpy.buffers]) == (
        "the lowered program(x: f32[n] in, y: f32[n] inout; alpha: f32)",
        ["x", "y"],
    )
    assert [(one.name, one.offset, str(one.type)) for one in saxpy.push_constants] == [("alpha", 0, "f32")]
    parameters = list(inspect.signature(saxpy).parameters.values())[:3]
    assert [(one.name, one.kind.name) for one in parameters] == [
        ("x", "POSITIONAL_OR_KEYWORD"),
        ("y", "POSITIONAL_OR_KEYWORD"),
        ("alpha", "KEYWORD_ONLY"),
    ]


NO_BETA = (
    "the program has no buffer or push constant 'beta'. Fix: name one of its buffers 'x', 'y' or its push constants 'alpha'."
)
NOT_GIVEN = "push constant 'alpha' (f32) was not given. Fix: give it, for example alpha=1."


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        ({}, InvalidPushConstant, NOT_GIVEN),
        ({"push_constants": {}}, InvalidPushConstant, NOT_GIVEN),
        ({"alpha": "2"}, InvalidPushConstant, "push constant 'alpha' is f32, and '2' is not a real number. Fix: give f32."),
        ({"alpha": 1e39}, InvalidPushConstant, None),
        ({"alpha": [1.0, 2.0]}, InvalidPushConstant, "push constant 'alpha' is f32 and got 2 value(s). Fix: give 1 value(s)."),
        (
            {"alpha": 2.0, "beta": 1.0},
            InvalidInput,
            NO_BETA,
        ),
        (
            {"alpha": 2.0, "push_constants": {"alpha": 2.0}},
            InvalidInput,
            "the push constant 'alpha' is given twice. Fix: give it by keyword or in push_constants.",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_runs(
    saxpy: Kernel, call: dict[str, Any], kind: type[Exception], message: str | None
) -> None:
    for action in (lambda: saxpy(x, y, **call), lambda: saxpy(x, y, strict=True, **call)):
        with pytest.raises(kind) as refused:
            action()
        assert message is None or str(refused.value) == message
    with pytest.raises(InvalidInput, match="takes 2 array"):
        saxpy(x, y, np.float32([2]), alpha=2.0)


def test_it_is_bound_submitted_and_batched(driver: Driver, saxpy: Kernel) -> None:
    a, b = driver.buffer(x), driver.buffer(y)
    bound = saxpy.bind(a, b, alpha=2.0)
    bound.run()
    again = saxpy.bind(a, b, alpha=2.0)
    assert (again is bound, again.pipeline is bound.pipeline) == (False, True)  # recorded once, with values of its own
    again.set(alpha=100.0)
    bound.submit().result()
    named = saxpy.bind(y=b, x=a, push_constants={"alpha": 10.0})
    assert named.pipeline is not bound.pipeline
    with driver.batch() as batch:
        batch.add(bound)
        batch.add(named)
    assert b.read().tolist() == (16 * x + y).tolist()
    assert saxpy(a, y, alpha=1.0).tolist() == (x + y).tolist()
    with pytest.raises(InvalidPushConstant, match="was not given"):
        saxpy.bind(a, b)


TYPES = [
    (DataType.U32, [0, 7, 2**32 - 1]),
    (DataType.I32, [0, -7, -(2**31)]),
    (F32, [0.5, -2.0, 2.0**127]),
    (DataType.U64, [0, 7, 2**64 - 3]),
    (DataType.I64, [0, -7, -(2**63)]),
    (DataType.F64, [0.5, 1 / 3, -1e300]),
]


@pytest.mark.parametrize(("dtype", "values"), TYPES, ids=lambda one: str(one) if isinstance(one, DataType) else "")
def test_every_type_arrives_as_it_was_given(driver: Driver, dtype: DataType, values: list[Any]) -> None:
    """A pushed bool says whether the array or the one number is stored, a byte's neighbour lies at its own multiple."""
    out = BufferDecl.output("out", 0, dtype).with_count(4)
    one, many = BufferDecl.push("one", 4, dtype), BufferDecl.push("many", 5, dtype, 3)
    nodes = [store(out, I, select(load(ON, 0), load(one, 0), load(many, I)))]
    kernel = driver.compile(Program.wrapped([out, ON, one, many], (4, 1, 1), nodes))
    found = [kernel(on=flag, one=values[1], many=values).tolist() for flag in (True, False)]
    assert found == [[values[1]] * 4, [*values, 0]]


def test_bools_come_as_the_word_that_they_are(driver: Driver) -> None:
    out, many = BufferDecl.output("out", 0, DataType.U32).with_count(3), BufferDecl.push("many", 1, DataType.Bool, 3)
    nodes = [store(out, I, cast(DataType.U32, load(many, I)))]
    kernel = driver.compile(Program.wrapped([out, many], (4, 1, 1), nodes))
    assert kernel(many=[True, False, True]).tolist() == [1, 0, 1]


def test_it_is_tuned_with_the_numbers_of_a_call() -> None:
    assert why_workgroup_is_fixed(SAXPY) is None
    with Driver(autotune=AutotuneStore()) as tuning:
        few = Budget(seconds=2.0)
        record = tuning.tune(SAXPY, x, y, alpha=2.0, budget=few).record
        assert tuning.compile(SAXPY)(x, y, alpha=2.0).tolist() == (2 * x + y).tolist()
        assert len(record.tile) == 3
        with pytest.raises(InvalidPushConstant, match="was not given"):
            tuning.tune(SAXPY, x, y, budget=few)
        plain = Program.wrapped([X, Y], (64, 1, 1), [store(Y, I, load(X, I))])
        with pytest.raises(InvalidPushConstant, match="the program has no push constants, and 'alpha' was given"):
            tuning.tune(plain, x, y, push_constants={"alpha": 1.0}, budget=few)


def test_nobody_tunes_it_unasked_with_numbers_that_were_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_AUTOTUNE", "force")
    with Driver(autotune=AutotuneStore()) as tuning:
        assert tuning.compile(SAXPY)(x, y, alpha=2.0).tolist() == (2 * x + y).tolist()
        assert len(tuning.tuning.store) == 0


def test_backends_agree_on_what_is_among_the_inputs() -> None:
    inputs = [x, y, np.float32([2])]
    with acquire("kompute") as device, acquire("cpu-ref") as reference:
        loaded = device.load(SAXPY)
        found = [
            device.dispatch(SAXPY, inputs),
            reference.dispatch(SAXPY, inputs),
            loaded.dispatch(inputs),
            loaded.dispatch_timed(inputs).outputs,
        ]
        a, b = device.allocate_resident(20, np.float32), device.allocate_resident(20, np.float32)
        device.upload_resident(a, x)
        device.upload_resident(b, y)
        device.dispatch_resident(loaded, [a, b], push_constants={"alpha": 2.0})
        resident = np.frombuffer(device.download_resident(b), np.float32)
        with pytest.raises(InvalidPushConstant, match="among its inputs"):
            device.dispatch(SAXPY, [x, y], push_constants={"alpha": 2.0})
    wanted = (2 * x + y).tolist()
    assert ([one[0].tolist() for one in found], resident.tolist()) == ([wanted] * 4, wanted)
