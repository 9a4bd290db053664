"""Lines of recordings: the golden file, and that whatever else a file holds is left out with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vyre_driver.errors import InvalidProgram
from vyre_driver.ir import BufferDecl, DataType, Program, SubgroupOp, gid_x, load, store, subgroup_reduce
from vyre_driver.lowering import recorded
from vyre_driver.lowering.recorded import RECORDING_VERSION, line_of, read_recording
from vyre_driver.runtime.recording import RecordingFile
from vyre_driver.specialization import SpecMap, SpecValue
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.target.config import DispatchConfig, ProgramConfig

if TYPE_CHECKING:
    from vyre_driver.lowering.source import KernelSource
    from vyre_driver.spirv.module import SpirvModule

GOLDEN = Path(__file__).parents[1] / "golden" / "recording_v1.txt"
BUMP = "the lines of recordings have changed: bump RECORDING_VERSION, and write tests/golden/recording_vN.txt anew"
PROGRAM = Program.wrapped(
    [BufferDecl.read("x", 0, DataType.F32), BufferDecl.read_write("y", 1, DataType.F32)],
    (64, 1, 1),
    [store("y", gid_x(), load("x", gid_x()))],
)


class Source:
    """What a line takes of a kernel's source."""

    def __init__(self, config: DispatchConfig | None = None, **values: SpecValue) -> None:
        self.config, self.constants = config, dict.fromkeys(values)
        constants = [_Constant(name, value.type_name, value.bits) for name, value in values.items()]
        self.specialization = _Specialization([*constants, _Constant("NOT_GIVEN", "u32", 9)])


class _Constant:
    def __init__(self, name: str, type_name: str, bits: int) -> None:
        self.name, self.type_name, self.bits = name, type_name, bits


class _Specialization:
    def __init__(self, constants: list[_Constant]) -> None:
        self.constants = constants


def line(code: SpirvModule | Program, config: DispatchConfig | None = None, **values: SpecValue) -> bytes:
    source: Any = Source(config, **values)
    made: KernelSource = source
    return line_of(code, made)


MODULE = line(shipped_module("fill_words"), DispatchConfig(subgroup_size=32), A=SpecValue.f32(-0.0), B=SpecValue.bool(True))
LINES = (("root", ("a.py", 3, 5)),)
CONFIG = ProgramConfig(ulp_budget=2, workgroup_override=(128, 1, 1), floats="fast", bounds="robust", lines=LINES)


def test_the_golden_file_is_what_is_written_and_says_what_was_compiled() -> None:
    assert GOLDEN.read_bytes() == line(PROGRAM, CONFIG, N=SpecValue.u32(7)) + b"\n", BUMP
    found = read_recording(GOLDEN.read_bytes() + MODULE + b"\n" + line(PROGRAM))
    (program, module, plain) = found.kernels
    assert isinstance(program.code, Program)
    assert (program.code.digest(), program.constants, program.config) == (
        PROGRAM.digest(),
        SpecMap([("N", SpecValue.u32(7))]),
        CONFIG,
    )
    assert (module.code, module.config) == (shipped_module("fill_words"), DispatchConfig(subgroup_size=32))
    assert module.constants == SpecMap([("A", SpecValue.f32(-0.0)), ("B", SpecValue.bool(True))])
    assert (plain.config, plain.constants, found.left_out, RECORDING_VERSION) == (None, SpecMap(), (), 1)


def reducing(op: SubgroupOp) -> Program:
    """A program that combines values over the subgroup."""
    return PROGRAM.with_rewritten_wrapped_entry([store("y", gid_x(), subgroup_reduce(op, load("x", gid_x())))])


def test_a_sum_over_the_subgroup_is_written_as_0_2_writes_it() -> None:
    written = line(reducing(SubgroupOp.ADD))
    assert b'{"SubgroupAdd":[{"Load":["x",' in written
    assert (json.loads(written)["recording"], read_recording(written).kernels[0].code) == (1, reducing(SubgroupOp.ADD))


@pytest.mark.parametrize("op", [op for op in SubgroupOp if op is not SubgroupOp.ADD])
def test_lines_of_programs_that_0_2_does_not_know_are_of_version_2(op: SubgroupOp) -> None:
    written = line(reducing(op))
    (kernel,) = read_recording(written).kernels
    assert isinstance(kernel.code, Program)
    assert (json.loads(written)["recording"], kernel.code.digest()) == (2, reducing(op).digest())


def changed(**fields: object) -> bytes:
    return json.dumps({**json.loads(MODULE), **fields}).encode()


def program_with(value: object) -> bytes:
    fields = json.loads(line(PROGRAM))
    return json.dumps({**fields, "program": value}).encode()


WORDS = json.loads(MODULE)["module"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\0", "it is not a whole line of a recording"),
        (MODULE[:-9], "it is not a whole line of a recording"),
        (b"[" * 100_000, "it is not a whole line of a recording"),
        (b"7", "it is no line of a recording"),
        (b"{}", "it is no line of a recording"),
        (changed(recording=True), "it is no line of a recording"),
        (changed(recording=3), "another version wrote it, and this one reads versions 1 and 2"),
        (changed(more=1), "it has 1 fields that are not known"),
        (changed(module="!"), "its code is no Base64"),
        (changed(module=[]), "its code is no Base64"),
        (changed(module=WORDS[:64]), "fill_words.spv"),
        (changed(name=7), "its module has no name, or an entry point that is no text"),
        (changed(name="a" * 1025), "its module has no name, or an entry point that is no text"),
        (changed(entry=[]), "its module has no name, or an entry point that is no text"),
        (changed(constants=[]), "its constants are none"),
        (changed(constants={"A": 7}), "a constant is no type and 32 bits"),
        (changed(constants={"A": "u32:0x123"}), "a constant is no type and 32 bits"),
        (changed(constants={"A": "u32:0x-0000001"}), "a constant is no type and 32 bits"),
        (changed(constants={"A": "bool:0x00000002"}), "2 with data type None are not of kind"),
        (changed(config={"floats": "fast"}), "its configuration has fields that are not known"),
        (changed(config={"subgroup_size": 3}), "subgroup_size of the dispatch is 3"),
        (program_with(None), "its program is none"),
        (program_with({"Program": [7]}), "its program is none"),
        (program_with({"Driver": []}), "its program is none"),
        (program_with({"Store": ["y"]}), "its program is none"),
        (program_with({"float": "00"}), "its program is none"),
        (program_with({"Program": [[], [64, 1, 1], [1.5], None, False, False]}), "its program is none"),
        (program_with({"Program": [[], [64, 1, 1], [{"Return": []}], 7, False, False]}), "the op id of a program is 7"),
        (json.dumps({**json.loads(line(PROGRAM)), "config": {"lines": [["a"]]}}).encode(), "its lines of source are none"),
    ],
)
def test_what_is_no_line_is_left_out_with_a_reason_and_the_others_count(data: bytes, reason: str) -> None:
    found = read_recording(b"\n".join([MODULE, data, b"", MODULE, GOLDEN.read_bytes()]))
    ((number, said),) = found.left_out
    assert (len(found.kernels), number, said[: len(reason)]) == (2, 2, reason)


def test_lines_and_kernels_beyond_the_bounds_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "MAX_LINE_BYTES", len(MODULE))
    monkeypatch.setattr(recorded, "MAX_KERNELS", 1)
    found = read_recording(b"\n".join([MODULE + b" ", MODULE, line(PROGRAM), b"7"]))
    assert (len(found.kernels), found.left_out) == (
        1,
        (
            (1, f"it has {len(MODULE) + 1} bytes, and at most {len(MODULE)} are read"),
            (3, "it is behind 1 kernels, and no more are read"),
        ),
    )


def test_of_a_file_that_is_no_recording_only_the_beginning_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "MAX_LEFT_OUT", 2)
    found = read_recording(b"\n7\n8\n9\n" + MODULE)
    no_line = "it is no line of a recording"
    behind = "it is behind 2 lines that are left out, and no more are read"
    assert (found.kernels, found.left_out) == ((), ((2, no_line), (3, no_line), (4, behind)))


def test_any_byte_of_a_line_may_be_changed() -> None:
    whole = GOLDEN.read_bytes()
    for at in range(0, len(whole), 3):
        found = read_recording(whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1 :])
        assert len(found.kernels) + len(found.left_out) >= 1


def test_a_program_that_is_too_large_cannot_be_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "MOST_VALUES", 10)
    with pytest.raises(InvalidProgram, match=r"cannot be written down: it has more than 10 values\. Fix: compile it where"):
        line(PROGRAM)


def test_lines_that_other_processes_have_added_are_not_added_again_and_half_a_line_is_ended_first(tmp_path: Path) -> None:
    path = tmp_path / "kernels"
    ours, theirs = RecordingFile(path), RecordingFile(path)
    source: Any = Source()
    for _ in range(2):
        ours.note(PROGRAM, source)
        theirs.note(PROGRAM, source)
    whole = line(PROGRAM) + b"\n"
    assert path.read_bytes() == whole
    with path.open("ab") as file:
        file.write(b'{"half')
    theirs.note(shipped_module("fill_words"), source)
    ours.note(shipped_module("fill_words"), source)
    assert path.read_bytes() == whole + b'{"half\n' + line(shipped_module("fill_words")) + b"\n"


def test_a_file_that_is_larger_than_any_recording_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kernels"
    path.write_bytes(2 * (line(PROGRAM) + b"\n"))
    monkeypatch.setattr(recorded, "MAX_FILE_BYTES", path.stat().st_size - 1)
    source: Any = Source()
    RecordingFile(path).note(PROGRAM, source)
    assert caplog.messages == [f"kernels are not written down in {path}: File too large"]
    assert path.read_bytes() == 2 * (line(PROGRAM) + b"\n")
