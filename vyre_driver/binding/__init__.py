"""Which buffer is what, and whether what a caller gives fits: plans, arguments, push constants and grids (docs/binding.md)."""

from vyre_driver.binding.layout import (
    BackendLayoutClass,
    BackendLayoutFingerprint,
    BackendLayoutSlot,
    BindingSetFingerprint,
    binding_plans_share_layout,
)
from vyre_driver.binding.plan import Binding, BindingPlan, BindingRole

__all__ = [
    "BackendLayoutClass",
    "BackendLayoutFingerprint",
    "BackendLayoutSlot",
    "Binding",
    "BindingPlan",
    "BindingRole",
    "BindingSetFingerprint",
    "binding_plans_share_layout",
]
