"""What is known of a module or a program once it is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre_driver.binding.plan import BindingPlan
    from vyre_driver.identity.keys import PipelineCacheKey
    from vyre_driver.kompute.pipeline import PipelineSource
    from vyre_driver.lowering.launch import ProgramRules
    from vyre_driver.spirv.contract import PushConstantMember


@dataclass(frozen=True, slots=True)
class CompiledModule:
    """What ``Driver.compile`` proved and found, before there are buffers; ``rules`` are those of a program.

    ``looks_beyond_x`` says that a module looks at more axes of its grid than the first, or may do so.
    """

    key: PipelineCacheKey
    push_constants: tuple[PushConstantMember, ...]
    plan: BindingPlan
    workgroup: tuple[int, int, int]
    source: PipelineSource
    constants: Mapping[str, int | float | bool]
    rules: ProgramRules | None = None
    looks_beyond_x: bool = False
