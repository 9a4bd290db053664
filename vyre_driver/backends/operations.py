"""The operations of a program that a backend can support, by upstream's names.

Source: spec item 4.6, the default set of 21 names.
"""

from __future__ import annotations

_CORE = frozenset(
    {
        "vyre.node.let",
        "vyre.node.assign",
        "vyre.node.store",
        "vyre.node.if",
        "vyre.node.loop",
        "vyre.node.return",
        "vyre.node.block",
        "vyre.node.barrier",
        "vyre.node.indirect_dispatch",
        "vyre.node.async_load",
        "vyre.node.async_wait",
        "vyre.node.region",
        "vyre.lit_u32",
        "vyre.lit_i32",
        "vyre.lit_f32",
        "vyre.lit_bool",
        "vyre.var",
        "vyre.bin_op",
        "vyre.un_op",
        "vyre.load",
        "vyre.store",
    }
)


_NODE = "vyre.node."
# Nodes of the default set that do not become SPIR-V, for want of something that kompute or SPIR-V has not.
_WITHOUT_LOWERING = frozenset({"vyre.node.indirect_dispatch", "vyre.node.async_load", "vyre.node.async_wait"})


def core_expressions() -> frozenset[str]:
    """Return those of the default set that are not nodes."""
    return frozenset(name for name in _CORE if not name.startswith(_NODE))


def lowered_ops() -> frozenset[str]:
    """Return what becomes SPIR-V: of the default set all but copies beside the invocations and grids that a device reads."""
    return _CORE - _WITHOUT_LOWERING


def core_supported_ops() -> frozenset[str]:
    """Return upstream's default set: control flow, loads, stores and arithmetic, without traps and collectives."""
    return _CORE
