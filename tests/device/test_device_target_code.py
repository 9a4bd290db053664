"""Modules in upstream's frames that contradict their artifact, or ask for more than the device has, are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import glsl
from upstream_graphs import artifact_of, bundle, envelope_of, module, payload_of

from vyre_driver import DataType, Driver, Program
from vyre_driver.artifacts import Envelope, SpirvArtifact
from vyre_driver.artifacts.payload import FRAME
from vyre_driver.errors import InvalidContainer, InvalidProgram, UnsupportedFeature
from vyre_driver.ir import BufferDecl, gid_x, load, store, u32

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.device

X = np.arange(4, dtype=np.uint32)
ADD_SEVEN = """
layout(binding = 0) {access} buffer X {{ uint x[]; }};
layout(binding = 1) writeonly buffer Y {{ uint y[]; }};
void main() {{
    uint i = gl_GlobalInvocationID.x;
    if (i < y.length()) y[i] = x[i] + 7u;
}}
"""
CODE = glsl(ADD_SEVEN.format(access="readonly"))
PROGRAM = Program.wrapped(
    [BufferDecl.read("a", 0, DataType.U32), BufferDecl.output("out", 1, DataType.U32).with_count(4)],
    (64, 1, 1),
    [store("out", gid_x(), load("a", gid_x()) + u32(7))],
)
NODES = [("n0", PROGRAM, [0], [1]), ("n1", PROGRAM, [1], [2])]
ARTIFACT = artifact_of([("i", "invocation"), ("mid", "invocation"), ("o", "output")], NODES, 4)
FIRST, SECOND = module(CODE, PROGRAM.to_wire()), module(CODE, PROGRAM.to_wire(), group=1, stage=1)


def code_of(
    *modules: dict[str, object], bindings: Sequence[list[int]] = ([0, 1], [1, 2]), change: tuple[bytes, bytes] = (b"", b"")
) -> SpirvArtifact:
    """The code of an envelope, in whose payload some bytes are others."""
    payload = payload_of(ARTIFACT, bundle(list(modules)), *bindings)
    payload = FRAME.wrap(payload[10:-32].replace(*change)) if change[0] else payload
    return Envelope.from_bytes(envelope_of(ARTIFACT, payload)).spirv()


def test_modules_that_fit_their_artifact_run(driver: Driver) -> None:
    assert code_of(FIRST, SECOND).run(driver, {"i": X})["o"].tolist() == (X + 14).tolist()


@pytest.mark.parametrize(
    ("modules", "bindings", "change", "problem"),
    [
        ((FIRST,), ([0, 1], [1, 2]), (b"", b""), "node 1 is in 0 modules, and has to be in one"),
        ((FIRST, {**SECOND, "nodes": [0]}), ([0, 1], [1, 2]), (b"", b""), "node 0 is in 2 modules, and has to be in one"),
        (
            (FIRST, {**SECOND, "nodes": [1, 2]}),
            ([0, 1], [1, 2]),
            (b"", b""),
            "a module stands for node 2, and the artifact has 2",
        ),
        (
            ({**SECOND, "stage": 0}, {**FIRST, "stage": 1}),
            ([0, 1], [1, 2]),
            (b"", b""),
            "module 1 takes value 'mid', which a module after it makes",
        ),
        (
            ({**FIRST, "nodes": [0, 1]},),
            ([0, 1], [1, 2]),
            (b"", b""),
            "2 entries are of the nodes of module 0, and there has to be one",
        ),
        (
            (FIRST, SECOND),
            ([0, 2], [1, 2]),
            (b"", b""),
            "module 0 is bound to value 'o', which its nodes neither take nor make",
        ),
        ((FIRST, SECOND), ([0, 1], [1, 1]), (b"", b""), "module 1 has one value at two bindings"),
        (
            (FIRST, SECOND),
            ([0, 1], [1, 2]),
            (b'"workgroup_size":[64,1,1]', b'"workgroup_size":[8,1,1]'),
            "module 0 has a workgroup of (64, 1, 1), and its entry says (8, 1, 1)",
        ),
        (
            (FIRST, SECOND),
            ([0, 1], [1, 2]),
            (b'"access":"read_write"', b'"access":"read_only"'),
            "module 0 may write its buffer 'y', and its entry says read_only",
        ),
    ],
)
def test_modules_that_contradict_their_artifact_are_refused(
    modules: tuple[dict[str, object], ...], bindings: Sequence[list[int]], change: tuple[bytes, bytes], problem: str
) -> None:
    with pytest.raises(InvalidProgram) as refused:
        code_of(*modules, bindings=bindings, change=change).schedule()
    assert refused.value.problem == problem
    assert refused.value.fix == "compile the artifact anew, or run it without spirv(), by its programs"


def test_demands_that_no_device_meets_are_refused(driver: Driver) -> None:
    with pytest.raises(UnsupportedFeature, match=r"module 0 has 4096 bytes of dynamic shared memory, and SPIR-V has none"):
        code_of(FIRST, SECOND, change=(b'"dynamic_shared_bytes":0', b'"dynamic_shared_bytes":4096')).schedule()
    wide = code_of(FIRST, SECOND, change=(b'"subgroup_size":0', b'"subgroup_size":1024'))
    with pytest.raises(UnsupportedFeature, match=r"the code of 'main' is for subgroups of 1024 invocations \("):
        wide.bind(driver, {"i": X})


@pytest.mark.parametrize("field", ["workgroup_size", "grid_size"])
def test_a_workgroup_or_a_grid_of_0_is_refused(field: str) -> None:
    size = {"workgroup_size": b"64", "grid_size": b"1"}[field]
    change = b'"%s":[%s,1,1]' % (field.encode(), size), b'"%s":[0,1,1]' % field.encode()
    with pytest.raises(InvalidContainer, match=r"entries\[0\] has a workgroup or a grid of 0"):
        code_of(FIRST, SECOND, change=change)


def test_a_module_that_writes_an_input_gets_a_copy_of_it(driver: Driver) -> None:
    first = module(glsl(ADD_SEVEN.format(access="").replace("x[i] + 7u", "x[i]++ + 7u")), PROGRAM.to_wire())
    bound = code_of(first, SECOND).bind(driver, {"i": X})
    bound.run()
    assert (bound.run()["o"].tolist(), bound.buffers["i"].read().tolist()) == ((X + 14).tolist(), X.tolist())
