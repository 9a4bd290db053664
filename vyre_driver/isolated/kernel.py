"""Kernels in a child, called with arrays through shared memory, and bound to its buffers: each run is one message.

They are compiled there, and again when the child was replaced.
"""

from __future__ import annotations

import inspect
import itertools
import time
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from vyre_driver.binding.outputs import array_targets, as_given, check_apart
from vyre_driver.checks import check_text
from vyre_driver.display.line import one_line
from vyre_driver.errors import InvalidInput, UnsupportedFeature
from vyre_driver.ir.program import Program
from vyre_driver.isolated.arena import ARRAY
from vyre_driver.isolated.arguments import Form, Sent, form_key
from vyre_driver.isolated.device import not_here
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.runtime.batch import Batch
from vyre_driver.runtime.bound import BoundKernel
from vyre_driver.runtime.describe import SignatureProperty, call_signature
from vyre_driver.runtime.kernel import Kernel, as_returned
from vyre_driver.runtime.observed import Observed
from vyre_driver.spirv.module import SpirvModule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vyre_driver.binding.plan import Binding
    from vyre_driver.isolated.device import DriverOfChild
    from vyre_driver.isolated.process import Child, Handle
    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.kompute.pipeline import BoundPipeline
    from vyre_driver.runtime.base import BaseDriver
    from vyre_driver.runtime.trace import Trace
    from vyre_driver.spirv.layout import Member


class IsolatedBound(BoundKernel):
    """A kernel bound to buffers in a child; it goes with the child."""

    __slots__ = ("_buffers", "_handle", "_kernel")

    def __init__(self, handle: Handle, kernel: Kernel, buffers: Sequence[object], observed: Observed) -> None:
        """Be what the child has bound; made by ``IsolatedKernel.bind``."""
        self._handle, self._kernel, self._buffers = handle, kernel, tuple(buffers)
        self._observed = observed

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self._kernel.name

    @property
    def handle(self) -> Handle:
        """By which the child knows it."""
        return self._handle

    def run(self, timeout: float | None = None) -> None:
        """Run it and wait; raises as ``Child.ask``."""
        began = time.perf_counter_ns()
        try:
            if timeout is not None:
                Deadline(timeout, self._kernel.name)
            child = self._handle.child
            child.ask(f"the kernel {self._kernel.name!r}", "run", self._handle.number, timeout, timeout=timeout)
        except Exception as error:
            self._observed.failed(error, time.perf_counter_ns() - began)
            raise
        self._observed.dispatches.ran(began)

    def set(self, /, **push_constants: object) -> None:
        """Replace push constants, all or some of them, in what is run from now on; raises as ``BoundKernel.set``."""
        try:
            self._handle.child.ask(f"the kernel {self._kernel.name!r}", "set", self._handle.number, push_constants)
        except Exception as error:
            self._observed.failed(error)
            raise

    def submit(self, *, block: bool | None = None) -> NoReturn:  # noqa: ARG002 -- the base's
        """Refuse: nobody here would see the work end."""
        raise _not_submitted()

    @property
    def _dispatch(self) -> NoReturn:  # type: ignore[override]
        raise UnsupportedFeature(
            "a kernel in Python is not bound on an isolated driver", fix="bind what driver.compile(kernel) returns"
        )

    @property
    def pipeline(self) -> BoundPipeline:
        """Refused: it is in the child."""
        raise not_here("pipeline")

    def __repr__(self) -> str:
        """Return which kernel it is of, on one line."""
        return one_line("BoundKernel", f"of {self._kernel.name!r}", "isolated")


class IsolatedBatch(Batch):
    """Bound kernels of one child, run as one submission and asked for by one message."""

    def __init__(self, driver: BaseDriver, label: str | None) -> None:
        """Start empty; made by ``IsolatedDriver.batch``."""
        super().__init__(driver.events, label)
        self._driver = driver
        self._isolated: list[IsolatedBound] = []
        self._bound = self._isolated  # type: ignore[assignment] # what the base counts

    def add(self, bound: BoundKernel) -> None:
        """Append a bound kernel; raises InvalidInput if it is none of the driver's process."""
        if not isinstance(bound, IsolatedBound):
            raise InvalidInput(
                f"a batch of an isolated driver takes its bound kernels and got something of type {type(bound).__name__}",
                fix="add what kernel.bind(...) returns, of a kernel of the same driver",
            )
        if self._isolated and bound.handle.child is not self._isolated[0].handle.child:
            raise InvalidInput("the batch holds kernels of several processes", fix="make a batch for each driver")
        self._isolated.append(bound)
        self._observed = None

    def run(self, timeout: float | None = None) -> None:
        """Submit all and wait; raises as ``Child.ask``, and InvalidInput for an empty one."""
        observed, began = self._watched(), time.perf_counter_ns()
        try:
            self._run(timeout)
        except Exception as error:
            observed.failed(error, time.perf_counter_ns() - began)
            raise
        observed.dispatches.ran(began)

    def _run(self, timeout: float | None) -> None:
        if not self._isolated:
            raise InvalidInput("the batch is empty", fix="add a bound kernel to it")
        if timeout is not None:
            Deadline(timeout, self._driver.device.name)
        numbers = tuple([one.handle.number for one in self._isolated])
        child = self._isolated[0].handle.child
        child.ask(f"a batch of {len(numbers)}", "batch", numbers, timeout, timeout=timeout)

    def submit(self, *, block: bool | None = None) -> NoReturn:  # noqa: ARG002 -- the base's
        """Refuse: nobody here would see the work end."""
        raise _not_submitted()


def _not_submitted() -> UnsupportedFeature:
    return UnsupportedFeature(
        "an isolated driver works in another process, and has no futures of submitted work in this one",
        fix="call run(), on a thread of yours where the caller is not to wait",
    )


_MOST_FORMS = 64


class IsolatedKernel(Kernel):
    """A kernel whose calls run in the child of an isolated driver. May be called from several threads."""

    def __init__(self, driver: DriverOfChild, recipe: Mapping[str, Any]) -> None:
        """Compile it; made by ``IsolatedDriver.compile``, and raises as that."""
        self._driver = driver
        self._recipe = recipe
        self._numbers = itertools.count(1)
        self._made: tuple[Handle, dict[str, Any], dict[object, Form]] = self._compiled_in(driver.child())
        self.plan = self._made[1]["plan"]
        self.workgroup_size = self._made[1]["workgroup_size"]
        self._observed = Observed(driver.events, self._made[1]["key"], self.name)
        driver.events.timeline.name(self._made[1]["key"], self._made[1]["name"])

    def __call__(  # noqa: PLR0913 -- what a call takes, by keyword
        self,
        /,
        *arrays: object,
        workgroups: int | Sequence[int] | None = None,
        invocations: int | Sequence[int] | None = None,
        push_constants: Mapping[str, object] | None = None,
        out: object = None,
        out_shapes: Mapping[str, int | tuple[int, ...]] | None = None,
        split: bool = False,
        timeout: float | None = None,
        strict: bool | None = None,
        label: str | None = None,
        **named: object,
    ) -> Any:  # noqa: ANN401 -- an array, a buffer, or a tuple of them
        """Run the kernel once, as ``Kernel.__call__``; results are views of shared memory, which they keep.

        Raises
        ------
        DriverCrashed
            If the process dies; the next call starts another.
        DispatchTimeout
            If the work does not end in time; the process is killed.
        VyreError
            What ``Kernel.__call__`` raises.
        """
        began = time.perf_counter_ns()
        options: dict[str, Any] = {}
        if (workgroups, invocations, push_constants, out_shapes, split, timeout, strict, label) != _NO_OPTIONS:
            given = (workgroups, invocations, push_constants, out_shapes, split, timeout, strict, label)
            options = {name: one for name, one, none in zip(_OPTIONS, given, _NO_OPTIONS, strict=True) if one is not none}
        try:
            if timeout is not None:
                Deadline(timeout, self._driver.device.name)  # which refuses what is no time
            outputs = self._call(arrays, named, options, out, timeout)
        except Exception as error:
            self._observed.failed(error, time.perf_counter_ns() - began)
            raise
        self._observed.dispatches.ran(began, label)
        return as_returned(outputs)

    def _call_plainly(
        self,
        arrays: tuple[object, ...],
        workgroups: tuple[int, int, int] | None,
        push_constants: dict[str, Any],
        out: object = None,
        out_shapes: Mapping[str, int | tuple[int, ...]] | None = None,
    ) -> Any:  # noqa: ANN401 -- an array, a buffer, or a tuple of them
        return self(*arrays, workgroups=workgroups, push_constants=push_constants, out=out, out_shapes=out_shapes)

    def bind(
        self,
        /,
        *buffers: Buffer,
        workgroups: int | Sequence[int] | None = None,
        invocations: int | Sequence[int] | None = None,
        push_constants: Mapping[str, object] | None = None,
        label: str | None = None,
        **named: object,
    ) -> BoundKernel:
        """Bind resident buffers of the same driver, as ``Kernel.bind``; they and what is bound go with the process.

        Raises
        ------
        DriverCrashed
            If the process dies, or a buffer was in one that died.
        VyreError
            What ``Kernel.bind`` raises.
        """
        try:
            if label is not None:
                check_text("label", label)
            handle = self._handle()
            sent = Sent(handle.child, buffers, named)
            grid = {"workgroups": workgroups, "invocations": invocations, "push_constants": push_constants}
            made, what = handle.child.handle(), f"a binding of {self.name!r}"
            handle.child.ask(what, "bind", made.number, handle.number, sent.arrays, sent.named, grid, held=sent.held)
        except Exception as error:
            self._observed.failed(error)
            raise
        observed = self._observed if label is None else self._observed.labelled(label)
        return IsolatedBound(made, self, sent.objects, observed)

    @property
    def name(self) -> str:
        """The module's or the program's name."""
        return str(self._made[1]["name"])

    @property
    def signature(self) -> str:
        """What a call takes, as ``Kernel.signature``."""
        return str(self._made[1]["signature"])

    @SignatureProperty
    def __signature__(self) -> inspect.Signature:
        """What ``inspect.signature`` shows, as of a ``Kernel``."""
        return call_signature(self.buffers, self.push_constants, inspect.signature(IsolatedKernel.__call__))

    @property
    def buffers(self) -> tuple[Binding, ...]:
        """The buffers that a call takes, in binding order: name, role, type and size of each."""
        return self.plan.descriptors

    @property
    def push_constants(self) -> tuple[Member, ...]:
        """The push constants: name, offset in bytes and type of each."""
        found: tuple[Member, ...] = self._made[1]["push_constants"]
        return found

    @property
    def constants(self) -> dict[str, int | float | bool]:
        """The value of each specialization constant by name, as ``Kernel.constants``."""
        return dict(self._made[1]["constants"])

    @property
    def trace(self) -> Trace:
        """What the cache said at compile time, and where the time of the last call went, in the process that is there."""
        handle = self._handle()
        found: Trace = handle.child.ask(f"the trace of {self.name!r}", "trace", handle.number)
        return found

    def disassemble(self) -> str:
        """Return the SPIR-V that runs as text, by spirv-dis; raises as ``Kernel.disassemble``."""
        handle = self._handle()
        return str(handle.child.ask(f"the code of {self.name!r}", "disassemble", handle.number))

    @property
    def source(self) -> Any:  # type: ignore[override] # noqa: ANN401 -- never returns
        """Refused: it is in the child."""
        raise not_here("kernel.source")

    def __vyre_stream__(self, *_: object) -> NoReturn:
        """Refuse: its pieces would wait for each other across processes."""
        raise not_here("streams")

    def __repr__(self) -> str:
        """Return its signature and workgroup on one line."""
        size = "x".join(map(str, self.workgroup_size))
        return one_line("Kernel", self.signature, f"workgroups of {size}", "isolated")

    def _handle(self) -> Handle:
        """Return the kernel in the process that is there, compiled again where that is another one; raises as ``compile``."""
        child = self._driver.child()
        if self._made[0].child is not child:
            self._made = self._compiled_in(child)
        return self._made[0]

    def _compiled_in(self, child: Child) -> tuple[Handle, dict[str, Any], dict[object, Form]]:
        """Return the kernel in a process, what is shown of it, and the forms of its calls there, none yet."""
        handle = child.handle()
        return handle, child.ask("compiling a kernel", "compile", handle.number, self._recipe), {}

    def _call(
        self,
        arrays: tuple[object, ...],
        named: dict[str, object],
        options: dict[str, Any],
        out: object,
        timeout: float | None,
    ) -> list[Any]:
        """Return the outputs of a call: those that were given, or new ones."""
        targets = [] if out is None else list(array_targets(self.plan, out))
        outputs = self._call_into(arrays, named, options, targets, timeout)
        return as_given(self.plan, outputs, out)

    def _call_into(
        self,
        arrays: tuple[object, ...],
        named: dict[str, object],
        options: dict[str, Any],
        targets: list[Any],
        timeout: float | None,
    ) -> list[Any]:
        """Return the outputs of a call, each in its target where it has one."""
        self._handle()
        handle, _, forms = self._made
        what = f"the kernel {self.name!r}"
        if len(targets) > 1:  # in the child they would lie apart
            written = [one for one in self.plan.descriptors if one.output_index is not None]
            check_apart(list(zip(written, targets, strict=True)))
        key = form_key(arrays, named, options, targets)
        if key is None:
            return self._run_anew(handle, what, arrays, named, options, targets)
        known = forms.get(key)
        if known is None:
            outputs = self._run_anew(handle, what, arrays, named, options, targets)
            self._learn(handle, forms, key, arrays, named, options, outputs)
            return outputs
        numbers = (*named.values(), *options.get("push_constants", {}).values())
        return known.call(handle, what, arrays, numbers, targets, timeout)  # type: ignore[arg-type] # form_key has looked

    def _learn(  # noqa: PLR0913 -- a call, taken apart
        self,
        handle: Handle,
        forms: dict[object, Form],
        key: object,
        arrays: Sequence[Any],
        named: Mapping[str, object],
        options: Mapping[str, Any],
        outputs: Sequence[Any],
    ) -> None:
        """Remember a call as a form, here and in the child."""
        if len(forms) >= _MOST_FORMS or any(one.dtype.hasobject for one in arrays):
            return
        number = next(self._numbers)
        form = Form(number, arrays, outputs)
        grid = {name: one for name, one in options.items() if name not in {"push_constants", "timeout"}}
        names = tuple(named), tuple(options.get("push_constants", {}))
        what = f"a form of {self.name!r}"
        handle.child.ask(what, "form", handle.number, number, *form.told(), names, grid)
        forms[key] = form

    def _run_anew(  # noqa: PLR0913 -- a call, taken apart
        self,
        handle: Handle,
        what: str,
        arrays: Sequence[object],
        named: Mapping[str, object],
        options: Mapping[str, Any],
        targets: list[Any],
    ) -> list[Any]:
        """Run a call of any kind, whose outputs come in a second message where nobody knew how large they would be."""
        sent = Sent(handle.child, arrays, named)
        places = [sent.target(one) for one in targets]
        timeout = options.get("timeout")
        made = handle.child.new_number()
        told = handle.child.ask(
            what, "call", made, handle.number, sent.arrays, sent.named, options, places or None, held=sent.held, timeout=timeout
        )
        if told is None:
            sent.finish()
            return targets
        return self._fetched(handle.child.handle(made), sent, told, targets)

    def _fetched(self, made: Handle, sent: Sent, told: Sequence[Any], targets: Sequence[Any]) -> list[Any]:
        """Return outputs that the child has made where nobody knew how large they would be."""
        known = [*sent.objects]
        outputs: list[Any] = []
        places: list[Any] = []
        for place, (kind, *what) in enumerate(told):
            target = targets[place] if place < len(targets) else None
            places.append(None)
            if kind == "given":
                outputs.append(known[what[0]] if target is None else target)
            elif kind != ARRAY:
                outputs.append(self._driver.adopted(made.child, *what))
            else:
                found, places[-1] = sent.room(what[0], np.dtype(what[1]))
                outputs.append(found)
        if any(one is not None for one in places):
            made.child.ask(f"the outputs of {self.name!r}", "fetch", made.number, places, held=sent.held)
        sent.finish()
        return outputs


def code_of(module: object) -> object:
    """Return a module as it is, and a program, or what gives one, in the bytes of its wire format.

    Raises
    ------
    InvalidInput
        If it is none of these.
    """
    if isinstance(module, SpirvModule):
        return module
    program: Any = getattr(module, "__vyre_program__", lambda: module)()
    if not isinstance(program, Program):
        raise InvalidInput(
            f"what is to be compiled is of type {type(module).__name__}", fix="give a SpirvModule, a Program, or a kernel"
        )
    return program.to_wire()


_OPTIONS = ("workgroups", "invocations", "push_constants", "out_shapes", "split", "timeout", "strict", "label")
_NO_OPTIONS = (None, None, None, None, False, None, None, None)
