"""Bundles of SPIR-V modules, which the code for the target "spv" is (schema 2): a digest, and JSON behind it.

Source: upstream 0.7, section 2.
"""

from __future__ import annotations

from typing import NamedTuple

from blake3 import blake3

from vyre_driver.artifacts.documents import Document
from vyre_driver.artifacts.faults import program_of, refuse
from vyre_driver.spirv.module import SpirvModule

SCHEMA = 2

_WHAT = "a bundle of modules"
_DIGEST_BYTES = 32
_MEMBERS = ("group", "stage", "nodes", "program", "descriptor", "entry_point", "bytes")


class Module(NamedTuple):
    """One module: the nodes that it stands for, its place in the order, its entry point, and its SPIR-V."""

    group: int
    stage: int
    nodes: tuple[int, ...]
    entry_point: str
    code: bytes

    def spirv(self) -> SpirvModule:
        """Return the module to compile; raises InvalidModule if its bytes are not SPIR-V."""
        return SpirvModule.from_bytes(self.code, name=f"group {self.group}", entry=self.entry_point)


def read_modules(data: bytes) -> tuple[Module, ...]:
    """Return the modules of a bundle in the order in which they run.

    Raises
    ------
    InvalidContainer
        If the bytes are not one such bundle.
    """
    body = data[_DIGEST_BYTES:]
    if len(data) < _DIGEST_BYTES:
        refuse(_WHAT, f"it has {len(data)} bytes, fewer than its digest of {_DIGEST_BYTES}")
    if blake3(body).digest() != data[:_DIGEST_BYTES]:
        refuse(_WHAT, "its digest is that of another document")
    document = Document(_WHAT, _DIGEST_BYTES)
    # A descriptor may have fractions, which every language writes in its own way.
    value = document.parse(body, is_canonical=False)
    schema, listed = document.members(value, "the bundle", "schema_version", "modules")
    if document.number(schema, "schema_version") != SCHEMA:
        document.refuse(f"it is of schema {schema}, and this reads {SCHEMA}")
    items = document.items(listed, "modules")
    modules = tuple([_module(document, item, f"modules[{place}]") for place, item in enumerate(items)])
    order = [(module.stage, module.group) for module in modules]
    if order != sorted(set(order)):
        document.refuse("its modules are not in the order of stage and group")
    return modules


def _module(document: Document, item: object, where: str) -> Module:
    group, stage, nodes, program, descriptor, entry_point, code = document.members(item, where, *_MEMBERS)
    document_program = document.octets(program, f"{where}.program")
    program_of(document_program, _WHAT, f"{where}.program", document.offset)
    if not isinstance(descriptor, dict):
        document.refuse(f"{where}.descriptor is not an object")
    numbers = document.numbers(nodes, f"{where}.nodes")
    if not numbers:
        document.refuse(f"{where} stands for no node")
    return Module(
        document.number(group, f"{where}.group"),
        document.number(stage, f"{where}.stage"),
        numbers,
        document.text(entry_point, f"{where}.entry_point"),
        document.octets(code, f"{where}.bytes"),
    )
