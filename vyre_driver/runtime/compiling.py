"""Kernels of modules and programs, with the constants or the workgroup that tuning has found best."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidInput
from vyre_driver.lowering.source import module_source, watched_source
from vyre_driver.runtime.compilation import compile_source
from vyre_driver.runtime.kernel import Kernel
from vyre_driver.target.config import check_supported_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vyre_driver.autotune.search.space import TuningSpace
    from vyre_driver.autotune.store.records import TuningRecords
    from vyre_driver.ir.program import Program
    from vyre_driver.lowering.source import KernelSource
    from vyre_driver.runtime.context import Context
    from vyre_driver.runtime.kernel_pipelines import CompiledKernel
    from vyre_driver.specialization.values import SpecMap
    from vyre_driver.spirv.module import SpirvModule
    from vyre_driver.target.config import DispatchConfig

KEPT_OF_MODULES = frozenset({"ulp_budget", "subgroup_size"})  # the first of which nobody has to use up


class NamedProgram:
    """A program with the name that events, metrics and profiles show."""

    __slots__ = ("__name__", "_program")

    def __init__(self, name: str, program: Program) -> None:
        """Take both."""
        self.__name__, self._program = name, program

    def __vyre_program__(self) -> Program:
        """Return the program."""
        return self._program


def kernel_of_module(  # noqa: PLR0913 -- as Driver.compile
    context: Context,
    tuning: Callable[[], TuningRecords],
    module: SpirvModule,
    constants: Mapping[str, object] | SpecMap | None,
    config: DispatchConfig | None,
    space: TuningSpace | None,
    began: int,
) -> Kernel:
    """Return the kernel of a module, for which compiling ``began`` then; raises as ``Driver.compile``.

    ``tuning`` gives the records where there is a ``space``: to find their file takes milliseconds in a new process.
    """
    check_supported_fields(config, KEPT_OF_MODULES, "module")
    device, size = context.device, None if config is None else config.subgroup_size
    if space is not None:
        from vyre_driver.autotune.target import tuned_specs  # late: most tune nothing

        constants = tuned_specs(module, constants, space, device.physical, tuning(), size)
    source = module_source(module, constants, device.physical, device.features, device.api_version, size)
    if context.is_strict:
        source = watched_source(source, device)
    return Kernel(context, _compiled(context, module, source, began))


def name_of(code: object) -> str:
    """Return the name of what is to be compiled, which may be anything; empty where it has none."""
    names = (getattr(code, attribute, None) for attribute in ("name", "__name__", "entry_op_id"))
    return next((name for name in names if name and isinstance(name, str)), "")


def check_no_space(space: TuningSpace | None) -> None:
    """Check that no space is given for a program; raises InvalidInput."""
    if space is not None:
        raise InvalidInput("compile got a space for a program, which has its own", fix="leave it out")


def kernel_of_program(  # noqa: PLR0913 -- as Driver.compile
    context: Context,
    tuning: TuningRecords,
    program: Program,
    constants: Mapping[str, object] | SpecMap | None,
    config: DispatchConfig | None,
    began: int,
    tune: Callable[..., object],
    name: str = "",
) -> Kernel:
    """Return the kernel of a program, as ``kernel_of_module``; ``tune`` is called first where calls are tuned on first use.

    ``name`` is what events and profiles call it; without one, that of the program.
    """
    from vyre_driver.lowering.program import prepare_for  # late: most need no programs

    device = context.device
    prepared = prepare_for(device, program, constants, config)
    declared = prepared.kernel_source(device.physical.limits, config, name)
    tuned = None
    if not tuning.is_idle and (config is None or config.workgroup_override is None):
        if tuning.tunes_on_first_use:
            tune(prepared, program, constants, config)
        from vyre_driver.autotune.target import tuned_config

        tuned = tuned_config(prepared, config, device.physical, tuning)
    if tuned is None:
        return Kernel(context, _compiled(context, program, declared, began))
    from vyre_driver.runtime.tuned_program import TunedProgram

    source = prepare_for(device, program, constants, tuned).kernel_source(device.physical.limits, tuned, name)
    as_declared = partial(_compiled, context, program, declared)
    return TunedProgram(context, _compiled(context, program, source, began), declared.workgroup, as_declared)


def _compiled(context: Context, code: SpirvModule | Program, source: KernelSource, began: int | None = None) -> CompiledKernel:
    """Write down what is compiled, where that is asked for, and compile it; raises as ``compile_source``."""
    if context.recording is not None:
        context.recording.note(code, source)
    return compile_source(context, source, began)
