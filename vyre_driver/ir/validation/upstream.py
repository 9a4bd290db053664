"""The findings of upstream 0.7's validator: its codes, in its order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidInput
from vyre_driver.ir.buffers import BufferAccess
from vyre_driver.ir.dtypes import ARRAY, TENSOR
from vyre_driver.ir.nodes import Region
from vyre_driver.ir.validation.buffer_uses import check_linear_types
from vyre_driver.ir.validation.rules import Findings, quoted, spelled
from vyre_driver.ir.validation.upstream_rules import UpstreamFindings
from vyre_driver.ir.validation.upstream_statements import UpstreamStatements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre_driver.ir.buffers import BufferDecl
    from vyre_driver.ir.program import Program
    from vyre_driver.ir.validation.call_rules import OperationSignature
    from vyre_driver.ir.validation.profile_rules import DeviceCapabilities

VERSIONS = ("0.7",)
"""The versions of upstream whose validator is known."""


def check_version(version: str) -> None:
    """Check that a version of upstream is one of VERSIONS; raises InvalidInput."""
    if version not in VERSIONS:
        raise InvalidInput(
            f"upstream {version!r} is not known here", fix=f"give one of {', '.join(map(repr, VERSIONS))}", value=version
        )


def examine_as_upstream(
    program: Program,
    version: str,
    capabilities: DeviceCapabilities | None,
    operations: Mapping[str, OperationSignature] | None,
) -> UpstreamFindings:
    """Return what the validator of a version of upstream finds.

    Without a device it takes no subgroups and no collectives, without operations no calls.

    Raises InvalidInput if the version is none of VERSIONS.
    """
    check_version(version)
    findings = UpstreamFindings()
    _check_header(program, findings)
    buffers = {buffer.name: buffer for buffer in program.buffers}
    UpstreamStatements(program, buffers, findings, capabilities, operations).check()
    linear = Findings()
    check_linear_types(program, linear)
    for problem in linear.problems:
        findings.add("V070", problem.path, problem.message)
    for place, buffer in enumerate(program.buffers):
        predicate = buffer.shape_predicate
        if predicate is not None and not predicate.holds(buffer.count):
            text = f"{predicate.describe()[:200]} does not hold for {quoted(buffer.name)}: count={buffer.count}"
            findings.add("V083", f"buffers[{place}]", text)
    return findings


def _check_header(program: Program, findings: UpstreamFindings) -> None:
    if not all(isinstance(node, Region) for node in program.entry) or not program.entry:
        findings.add("V105", "entry", "there are no nodes, or a top-level node is no region")
    for place, size in enumerate(program.workgroup_size):
        if size == 0:
            findings.add("V106", f"workgroup_size[{place}]", f"the workgroup has 0 invocations along {'xyz'[place]}")
    _check_buffers(program, findings)


def _check_buffers(program: Program, findings: UpstreamFindings) -> None:
    names: set[str] = set()
    bindings: set[int] = set()
    for place, buffer in enumerate(program.buffers):
        path, name = f"buffers[{place}]", quoted(buffer.name)
        if buffer.name in names:
            findings.add("V107", path, f"there are two buffers {name}")
        names.add(buffer.name)
        if buffer.access is not BufferAccess.WORKGROUP:
            if buffer.binding in bindings:
                findings.add("V108", path, f"binding {buffer.binding} of {name} is that of another buffer")
            bindings.add(buffer.binding)
        elif not buffer.count:
            findings.add("V109", path, f"workgroup buffer {name} has 0 elements")
        if buffer.is_output:
            _check_output(buffer, path, findings)
    outputs = [place for place, buffer in enumerate(program.buffers) if buffer.is_output]
    if len(outputs) > 1:
        findings.add("V022", f"buffers[{outputs[1]}]", f"{len(outputs)} buffers are marked is_output")


def _check_output(buffer: BufferDecl, path: str, findings: UpstreamFindings) -> None:
    if buffer.element.wire_tag in {ARRAY, TENSOR}:
        findings.add("V110", path, f"output {quoted(buffer.name)} has elements of {spelled(buffer.element)}")
    if not buffer.count and buffer.output_byte_range is None:
        findings.add("V130", path, f"output {quoted(buffer.name)} has no count")
