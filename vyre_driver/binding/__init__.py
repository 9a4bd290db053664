"""Match a caller's arguments to a kernel: binding plans, arguments, push constants and grids (docs/binding.md)."""

from vyre_driver.process.imports import check_required

check_required()

from vyre_driver.binding.plan import Binding, BindingPlan, BindingRole
from vyre_driver.upstream.layouts import (
    BackendLayoutClass,
    BackendLayoutFingerprint,
    BackendLayoutSlot,
    BindingSetFingerprint,
    binding_plans_share_layout,
)

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
