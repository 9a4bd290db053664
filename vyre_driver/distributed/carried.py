"""Kernels of every kind as values that travel: what a worker makes a kernel of, named by a digest."""

from __future__ import annotations

import functools
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from vyre_driver.autotune.measure.definition import KernelDefinition
from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.errors import InvalidInput, VyreError
from vyre_driver.ir.program import Program
from vyre_driver.lang.elementwise import Elementwise
from vyre_driver.lang.kernel import Kernel as PythonKernel
from vyre_driver.lang.reductions import Reduction, Scan
from vyre_driver.lang.types import Access, ArrayType
from vyre_driver.runtime.kernel import Kernel
from vyre_driver.spirv.module import SpirvModule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vyre_driver.driver import Driver
    from vyre_driver.specialization.values import SpecMap

_OF_PYTHON = (PythonKernel, Elementwise, Reduction, Scan)


@dataclass(frozen=True, slots=True)
class CarriedKernel:
    """A kernel on its way: ``payload`` is a pickle of what it is made of, ``digest`` names it in every process."""

    kind: str
    name: str
    payload: bytes
    digest: str

    def make(self, driver: Driver) -> Callable[..., Any]:
        """Return the kernel on a driver.

        Raises
        ------
        InvalidInput
            If it is carried by the name of a module that is not here.
        VyreError
            What ``Driver.compile`` raises.
        """
        try:
            code, constants = pickle.loads(self.payload)  # noqa: S301 -- Dask unpickles what it is given anyway
        except (ImportError, AttributeError) as error:
            raise InvalidInput(
                f"kernel {self.name!r} travels by its name, and this worker has not what it names: {error}",
                fix="install its module on the workers, send it with client.upload_file(PATH), or compile kernel.program()",
            ) from error
        if self.kind == "module":
            return driver.compile(code, constants)
        if self.kind == "program":
            return driver.compile(Program.from_wire(code), constants)
        if self.kind == "python":
            found: Callable[..., Any] = code.on(driver)
            return found
        return TunedKernel(driver, code) if isinstance(code, KernelDefinition) else _made_by(code, driver)


def carry(kernel: object, constants: Mapping[str, object] | SpecMap | None = None) -> CarriedKernel:
    """Return a kernel as what travels.

    Parameters
    ----------
    kernel
        A module, a program, a kernel or function of ``vyre_driver.lang``, a definition of a tuned kernel, or a function that
        makes a kernel on the driver that it is given, as those of ``vyre_driver.kernels``, perhaps as ``functools.partial``.
    constants
        As ``Driver.compile``, of a module, a program, or a kernel in Python.

    Raises
    ------
    InvalidInput
        If it is none of these, or cannot be pickled.
    InvalidProgram
        If a program cannot be written to the wire.
    """
    if isinstance(kernel, SpirvModule):
        return _carried("module", kernel.name, kernel, constants)
    if isinstance(kernel, Program):
        return _carried("program", "program", kernel.to_wire(), constants)
    if isinstance(kernel, PythonKernel) and constants is not None:
        return carry(kernel.with_(**dict(constants)))
    if constants is not None:
        raise InvalidInput(
            f"constants are given for {_named(kernel)}, which has none that are given so",
            fix="give them to the function that makes the kernel, as functools.partial(function, name=value)",
        )
    if isinstance(kernel, _OF_PYTHON):
        return _carried("python", _named(kernel), kernel, None)
    if isinstance(kernel, KernelDefinition) or (callable(kernel) and not isinstance(kernel, (Kernel, TunedKernel, type))):
        return _carried("maker", _named(kernel), kernel, None)
    raise InvalidInput(
        f"a kernel for a fleet is of type {type(kernel).__name__}, which cannot travel",
        fix="give a SpirvModule, a Program, a kernel of vyre_driver.lang, or a function of vyre_driver.kernels",
    )


def may_write(kernel: object) -> frozenset[int | str] | None:
    """Return which arrays a call writes where they lie, by place and name: buffers, and of a kernel in Python numpy arrays too.

    None where that is not known.
    """
    if isinstance(kernel, PythonKernel):
        found: set[int | str] = set()
        for at, one in enumerate(kernel.definition.signature.parameters):
            if isinstance(one.type, ArrayType) and one.type.access is not Access.IN:
                found |= {at, one.name}
        return frozenset(found)
    if isinstance(kernel, Kernel):
        written = [(at, one.name) for at, one in enumerate(kernel.buffers) if one.role.produces_output]
        return frozenset(part for pair in written for part in pair)
    return frozenset() if isinstance(kernel, (Elementwise, Reduction, Scan)) else None


def _carried(kind: str, name: str, code: object, constants: object) -> CarriedKernel:
    try:
        payload = pickle.dumps((code, constants), protocol=5)
    except VyreError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"kernel {name!r} cannot travel to other processes: {error}",
            fix="give a function that a module has under its name, and a kernel that is on no driver",
        ) from error
    return CarriedKernel(kind, name, payload, blake3(kind.encode() + b"\0" + payload).hexdigest(16))


def _named(kernel: object) -> str:
    if isinstance(kernel, functools.partial):
        return _named(kernel.func)
    return str(getattr(kernel, "__name__", None) or getattr(kernel, "name", None) or type(kernel).__name__)


def _made_by(maker: Callable[[Driver], object], driver: Driver) -> Callable[..., Any]:
    made = maker(driver)
    if not callable(made):
        raise InvalidInput(
            f"{_named(maker)} made an object of type {type(made).__name__} on a driver, which cannot be called",
            fix="give a function that returns a kernel",
        )
    return made
