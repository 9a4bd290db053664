"""Calls of kernels in a stream: as calls with arrays of the host, each of which becomes one of the compiled program."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from vyre_driver import settings
from vyre_driver.binding.outputs import named_targets
from vyre_driver.errors import InvalidInput
from vyre_driver.lang.launch.off_device import run_on_reference, run_plainly
from vyre_driver.lang.launch.watched import found_in
from vyre_driver.lang.types import Access
from vyre_driver.runtime.options import CallOptions
from vyre_driver.runtime.streamed_call import StreamedCall, arrays_among, split_options

if TYPE_CHECKING:
    import types
    from collections.abc import Callable

    from vyre_driver.driver import Driver
    from vyre_driver.lang.launch.choices import Choices
    from vyre_driver.lang.launch.launcher import Launcher


def streamed_call(  # noqa: PLR0913 -- a call, taken apart
    launcher: Launcher,
    choices: Choices,
    function: types.FunctionType,
    driver: Driver,
    given: tuple[object, ...],
    named: dict[str, object],
    out: object,
) -> StreamedCall:
    """Return a call in a stream of a driver's; ``out`` is what its outputs are written to that are not given by name.

    Raises
    ------
    InvalidInput
        As a call, or if the kernel was put on another driver.
    """
    name, signature = launcher.definition.name, launcher.definition.signature
    _check_driver(choices, driver, name)
    choices = choices._replace(driver=driver)
    if out is not None:
        names = [one.name for one in signature.arrays if one.type.access is Access.OUT]  # type: ignore[union-attr] # arrays
        both = zip(names, named_targets(names, out, name), strict=True)
        named = {**named, **{output: target for output, target in both if target is not None}}
    how = settings.choice(settings.INTERPRET, ("0", "1", "python"))
    if how in {"1", "python"}:
        plainly = functools.partial(run_plainly, function) if how == "python" else run_on_reference
        return _off_device(lambda: plainly(launcher, choices, given, named))
    one, arrays, numbers = launcher.matched(choices, given, named)
    launch = launcher.launch_of(choices, one, arrays, numbers)
    outputs = [each.name for each in signature.arrays if each.type.access.writes]  # type: ignore[union-attr] # the same
    if launch.compiled is None:
        return _off_device(lambda: launcher.returned(one, [launch.zeros(name, arrays) for name in outputs]))
    inputs = [each.name for each in signature.arrays if each.type.access is not Access.OUT]  # type: ignore[union-attr] # the same
    extra = [launch.words(numbers)] if launch.is_stored else []
    call = launch.host_call(inputs, outputs, {**arrays, **launch.stand_ins}, extra)

    def finish(found: list[Any]) -> Any:  # noqa: ANN401 -- as a call
        results = call.finish(found)
        both = zip(outputs, results, strict=True)
        results = [launch.zeros(name, arrays) if name in launch.stand_ins else result for name, result in both]
        return launcher.returned(one, results)

    options = {**launch.pushed(numbers), **one.options, "out_shapes": call.out_shapes}
    _, taken = split_options(options, call.out, is_strict=driver.strict)
    read, written = (tuple(arrays_among([arrays[name] for name in names])) for names in (inputs, outputs))
    named_error = functools.partial(found_in, launch.name, shapes=launch.shapes)
    return StreamedCall(launch.compiled, call.arrays, {}, taken, finish, read, written, named_error)


def _off_device(make: Callable[[], Any]) -> StreamedCall:
    """Return a call that runs nothing on the device, and gives what is made when its turn comes."""
    return StreamedCall(None, (), {}, CallOptions(), lambda _: make())


def _check_driver(choices: Choices, driver: Driver, name: str) -> None:
    if choices.driver is not None and choices.driver is not driver:
        raise InvalidInput(
            f"{name} was put on driver {choices.driver.number}, and the stream is of driver {driver.number}",
            fix="stream with that driver, or leave on() out",
            drivers=(choices.driver.number, driver.number),
        )
