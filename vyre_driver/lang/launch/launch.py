"""One form of call of a kernel: a compiled program with its grid and numbers, and how its arrays are handed over."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.binding._call_form import PositionalForm
from vyre_driver.errors import InputChanged, OutputNotWritten
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang.frontend.checking import FAULT_WORDS
from vyre_driver.lang.launch.bound import BoundPythonKernel
from vyre_driver.lang.launch.default_driver import DEFAULT
from vyre_driver.lang.launch.scalars import as_words
from vyre_driver.lang.launch.watched import found_in
from vyre_driver.lang.types import Access, ArrayType, ScalarType, bool_
from vyre_driver.runtime.options import QuickCall

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.driver import Driver
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.lang.launch._watch import Watch
    from vyre_driver.lang.launch.arrays import GivenArray
    from vyre_driver.lang.source.parameters import KernelSignature, Parameter
    from vyre_driver.runtime._quick import QuickLaunch
    from vyre_driver.runtime.bound import BoundKernel
    from vyre_driver.runtime.kernel import Kernel as CompiledKernel

    Taken = tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]


class HostCall(NamedTuple):
    """What a compiled program is called with, and what makes of its outputs those of the kernel, in order."""

    arrays: tuple[Any, ...]
    out: tuple[Any, ...] | None
    out_shapes: dict[str, tuple[int, ...]] | None
    finish: Callable[[list[Any]], list[Any]]


@dataclass(eq=False)
class Launch:
    """What calls of one form have in common.

    ``compiled`` is None where they go over nothing. ``changed`` tells what of the captured values has changed, and ``watch``
    sooner that none has. ``fixed`` are
    the numbers that the program is given beside those of the call, ``left_out`` has the shapes of the outputs without an array,
    ``shapes`` and ``elements`` the shapes and types of all arrays, ``stand_ins`` what is bound in the place of those without
    elements.

    ``form`` is that of calls by position whose arrays are all of type ``kind``, None where each call has to be looked at.
    ``check`` checks what a program that checks itself has found, by the words that it left in a buffer behind the others; None
    of one that does not. ``scalars`` are the parameters that are numbers, and their types; with ``is_stored`` they come in a
    buffer behind the arrays. ``places`` are those of buffers and numbers, how many arguments there are, and which come back, as
    long as there is no ``quick`` launch of a form on buffers.
    """

    name: str
    scalars: Mapping[str, tuple[Parameter, ScalarType]]
    compiled: CompiledKernel | None
    device: KomputeDevice
    changed: Callable[[], str | None]
    grid: tuple[int, int, int] | None
    fixed: dict[str, int]
    left_out: dict[str, tuple[int, ...]]
    shapes: Mapping[str, tuple[int, ...]]
    elements: dict[str, ScalarType]
    stand_ins: dict[str, GivenArray]
    watch: Watch | None = None
    form: PositionalForm | None = None
    kind: type = np.ndarray
    check: Callable[[NDArray[Any]], None] | None = None
    is_stored: bool = False
    places: tuple[tuple[int, ...], tuple[tuple[str, int], ...], int, tuple[int, ...]] | None = None
    quick: QuickLaunch | None = None

    def take_plain(self, parameters: Sequence[Parameter], arrays: Sequence[GivenArray], kind: type) -> None:
        """Let calls by position that give something for these parameters, arrays like these, be handed over as they are."""
        held = [(place, one.type) for place, one in enumerate(parameters) if isinstance(one.type, ArrayType)]
        places = tuple(place for place, _ in held)
        numbers = tuple((one.name, place) for place, one in enumerate(parameters) if place not in places)
        forms = tuple((one.dtype, one.shape) for one in arrays if one is not None)
        read = tuple(place for place, one in held if one.access is not Access.OUT)
        written = tuple(place for place, one in held if one.access.writes)
        self.kind = kind
        handed = places if kind is Buffer and not self.left_out else read
        self.form = PositionalForm(forms, kind, places, handed, written, numbers, self.fixed, len(parameters))
        if kind is Buffer and not self.left_out:
            self.places = places, numbers, len(parameters), written

    def quick_launch(self, taken: Taken) -> QuickLaunch | None:
        """Return what launches calls of the form in one pass, once; None where there is none, or none yet."""
        if self.places is None or self.compiled is None:
            return None
        (places, numbers, count, written), (buffers, _, values) = self.places, taken
        call = QuickCall(buffers, self.grid, values, places, numbers, count, written, weakref.ref(self), self.watch)
        launch = self.compiled._quick_launch(call)  # noqa: SLF001 -- which is there for this
        if launch is not None:
            self.places, self.quick = None, launch
        return launch

    def is_current(self, handed: tuple[Any, ...], driver: Driver | None) -> bool:
        """Whether arrays of the form belong to its device, which is open, and nothing that was captured has changed."""
        host = DEFAULT.device if driver is None else driver.context.device
        device = handed[0].device if self.kind is Buffer else host
        if device is not self.device or device.in_use.closed:
            return False
        return (self.watch is not None and self.watch.is_untouched()) or self.changed() is None

    def run_again(self, taken: Taken) -> Any:  # noqa: ANN401 -- nothing, an array, or a tuple of them
        """Run the program for a call of the form, as it took it apart; returns what the call does."""
        assert self.compiled is not None  # noqa: S101 -- what goes over nothing has no form
        run = self.compiled._call_plainly  # noqa: SLF001 -- which is there for this
        handed, written, numbers = taken
        try:
            if self.left_out:
                return run(handed, self.grid, numbers, None, self.left_out)
            if self.kind is Buffer:
                run(handed, self.grid, numbers)
            else:
                run(handed, self.grid, numbers, written or None)
        except (OutputNotWritten, InputChanged) as error:
            raise found_in(self.name, error, self.shapes) from None
        return written[0] if len(written) == 1 else written or None

    def bind_again(self, taken: Taken) -> BoundKernel:
        """Bind the program to the buffers and numbers of a call of the form."""
        assert self.compiled is not None  # noqa: S101 -- what goes over nothing has no form
        buffers, _, numbers = taken
        bound = self.compiled.bind(*buffers, push_constants=numbers, workgroups=self.grid)
        return BoundPythonKernel(bound, self, numbers, None)

    def bind(self, signature: KernelSignature, arrays: Mapping[str, GivenArray], numbers: Mapping[str, Any]) -> BoundKernel:
        """Bind the program to the buffers and numbers of a call."""
        assert self.compiled is not None  # noqa: S101 -- the caller refuses what goes over nothing
        buffers: list[Any] = [self.stand_ins.get(one.name, arrays[one.name]) for one in signature.arrays]
        stored = self.stored_buffers(numbers)
        pushed = self.fixed if self.is_stored else {**self.fixed, **numbers}
        bound = self.compiled.bind(*buffers, *stored, push_constants=pushed, workgroups=self.grid)
        return BoundPythonKernel(bound, self, numbers, stored[0] if stored else None)

    def run(
        self,
        signature: KernelSignature,
        given: Mapping[str, GivenArray],
        numbers: Mapping[str, object],
        options: Mapping[str, Any],
    ) -> list[Any]:
        """Run the program; returns what comes back for each array that is written, in order."""
        outputs = [one.name for one in signature.arrays if one.type.access.writes]  # type: ignore[union-attr] # arrays
        if self.compiled is None:
            return [self.zeros(name, given) for name in outputs]
        arrays = {**given, **self.stand_ins}
        options = {**self.pushed(numbers), **options}
        inputs = [one.name for one in signature.arrays if one.type.access is not Access.OUT]  # type: ignore[union-attr] # the same
        try:
            if any(isinstance(one, Buffer) for one in given.values()):
                found = self._run_on_buffers(self.compiled, inputs, outputs, arrays, self.stored_buffers(numbers), options)
            else:
                extra = [self.words(numbers)] if self.is_stored else []
                found = self._run_on_host(self.compiled, inputs, outputs, arrays, extra, options)
        except (OutputNotWritten, InputChanged) as error:
            raise found_in(self.name, error, self.shapes) from None
        return [self.zeros(name, given) if name in self.stand_ins else one for name, one in zip(outputs, found, strict=True)]

    def pushed(self, numbers: Mapping[str, object]) -> dict[str, Any]:
        """Return push constants and grid, as options of a call."""
        return {"push_constants": self.fixed if self.is_stored else {**self.fixed, **numbers}, "workgroups": self.grid}

    def stored_buffers(self, numbers: Mapping[str, object]) -> list[Buffer]:
        """Return a buffer of the numbers that come in one, or nothing."""
        return [self.device.driver().buffer(self.words(numbers))] if self.is_stored else []

    def words(self, numbers: Mapping[str, object]) -> NDArray[np.uint32]:
        """Return numbers as they lie in the buffer of a program that takes them from one."""
        return as_words(self.scalars, numbers)

    def _run_on_buffers(  # noqa: PLR0913 -- a call, taken apart
        self,
        run: CompiledKernel,
        inputs: list[str],
        outputs: list[str],
        arrays: Mapping[str, GivenArray],
        extra: list[Buffer],
        options: Mapping[str, Any],
    ) -> list[Any]:
        """Run on the buffers of a call, and on new ones for what is of the host or left out; what was written there is read.

        So one buffer may be given for what is read and what is written, whatever the other arrays of the call are.
        """
        held = {name: self._on_device(name, one, arrays, is_read=name in inputs) for name, one in arrays.items()}
        words = [] if self.check is None else [self._fault_words()]
        run(*held.values(), *extra, *words, **options)
        if self.check is not None:
            self.check(words[0].read())
        if stays_on_device(arrays):
            return [held[name] for name in outputs]
        return [
            held[name] if held[name] is arrays[name] else self._read_back(name, held[name], arrays[name]) for name in outputs
        ]

    def _on_device(self, name: str, given: GivenArray, arrays: Mapping[str, GivenArray], *, is_read: bool) -> Buffer:
        """Return an array of a call as a buffer, a new one if it is none: with its contents where it is read, else zeros."""
        if isinstance(given, Buffer):
            return given
        element, driver = self.elements[name], self.device.driver()
        dtype = np.dtype(np.uint32) if element is bool_ else element.dtype
        made: Buffer = (
            driver.buffer(np.ascontiguousarray(given, dtype))
            if given is not None and is_read
            else driver.zeros(self.shape(arrays, name), dtype)
        )
        return made

    def _read_back(self, name: str, found: Buffer, target: GivenArray) -> GivenArray:
        """Return what a buffer holds as an array of the host, the one that is given if there is one."""
        assert not isinstance(target, Buffer)  # noqa: S101 -- which is not read
        if self.elements[name] is bool_:
            return _as_bools(found.read(), found.shape, target)
        read: NDArray[Any] = found.read(out=target)
        return read

    def _run_on_host(  # noqa: PLR0913 -- a call, taken apart
        self,
        run: CompiledKernel,
        inputs: list[str],
        outputs: list[str],
        arrays: Mapping[str, GivenArray],
        extra: list[NDArray[np.uint32]],
        options: Mapping[str, Any],
    ) -> list[Any]:
        """Run on arrays of the host, each copied to the device and back."""
        call = self.host_call(inputs, outputs, arrays, extra)
        found = run(*call.arrays, out=call.out, out_shapes=call.out_shapes, **options)
        return call.finish(list(found) if isinstance(found, tuple) else [found])

    def host_call(
        self, inputs: list[str], outputs: list[str], arrays: Mapping[str, GivenArray], extra: list[NDArray[np.uint32]]
    ) -> HostCall:
        """Return what the compiled program is called with where arrays are copied to the device and back."""
        bools = self.bools(arrays)
        given = [_as_words(arrays[name]) if name in bools else arrays[name] for name in inputs]
        targets = [None if name in bools else arrays[name] for name in outputs]
        if self.check is not None:
            extra = [*extra, np.zeros(FAULT_WORDS, np.uint32)]
            targets.append(None)
        fresh = [name for name in outputs if name not in inputs and (name in bools or arrays[name] is None)]
        shapes = {name: self.shape(arrays, name) for name in fresh}

        def finish(results: list[Any]) -> list[Any]:
            if self.check is not None:
                self.check(results.pop())
            for place, name in enumerate(outputs):
                if name in bools:
                    results[place] = _as_bools(results[place], self.shape(arrays, name), arrays[name])
            return results

        out = tuple(targets) if any(one is not None for one in targets) else None
        return HostCall((*given, *extra), out, shapes or None, finish)

    def _fault_words(self) -> Buffer:
        """Return a buffer for what a program that checks itself finds: nothing so far."""
        words = Buffer(self.device, FAULT_WORDS, np.uint32)
        words.fill(0)
        return words

    def bools(self, arrays: Mapping[str, GivenArray]) -> frozenset[str]:
        """Return the names of the arrays of the host that hold bools, which are words on the device."""
        held = [name for name, element in self.elements.items() if element is bool_]
        return frozenset(name for name in held if not isinstance(arrays[name], Buffer))

    def zeros(self, name: str, given: Mapping[str, GivenArray]) -> GivenArray:
        """Return an output that nothing is written to: as it is given, else zeros of its shape."""
        found = given[name]
        if found is not None:
            return found
        dtype = self.elements[name].dtype
        if not stays_on_device(given):
            return np.zeros(self.left_out[name], dtype)
        made: Buffer = self.device.driver().buffer(np.zeros(self.left_out[name], np.uint32 if dtype == np.bool_ else dtype))
        return made

    def shape(self, arrays: Mapping[str, GivenArray], name: str) -> tuple[int, ...]:
        """Return the shape of an array of a call, given or left out."""
        given = arrays[name]
        return self.left_out[name] if given is None else given.shape


def _as_words(array: GivenArray) -> NDArray[np.uint32]:
    assert isinstance(array, np.ndarray)  # noqa: S101 -- of the host
    return array.astype(np.uint32)


def _as_bools(found: NDArray[Any], shape: tuple[int, ...], target: GivenArray) -> NDArray[np.bool_]:
    """Return an output that is words in memory as bools, written to its target if there is one."""
    bools: NDArray[np.bool_] = found.reshape(-1).view(np.uint32).reshape(shape) != 0
    if target is None:
        return bools
    assert isinstance(target, np.ndarray)  # noqa: S101 -- of the host
    np.copyto(target, bools)
    return target


def stays_on_device(arrays: Mapping[str, GivenArray]) -> bool:
    """Whether what a call makes is a buffer: all arrays that it gives are, and there are some."""
    given = [one for one in arrays.values() if one is not None]
    return bool(given) and all(isinstance(one, Buffer) for one in given)
