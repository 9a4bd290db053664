"""Record work for submissions: dispatches of kernels, one or several, and operations of kompute's."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from vyre_driver.kompute.submission import NoDispatch, Submission
from vyre_driver.telemetry._timeline import label_of, label_of_number
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.kompute.memory import TensorBuffer
    from vyre_driver.kompute.pipeline import BoundPipeline
    from vyre_driver.kompute.submission import Span
    from vyre_driver.runtime.bound import BoundKernel
    from vyre_driver.vulkan.layer._layer import Allocation

_NAMED = 4  # kernels of a batch


def record(  # noqa: PLR0913 -- by keyword
    device: KomputeDevice,
    groups: Sequence[Sequence[Any]],
    keep: object,
    *,
    device_only: bool = False,
    timed: bool = False,
    watched: Sequence[BoundPipeline] = (),
    cut_word: TensorBuffer | None = None,
    memory: Sequence[Allocation] = (),
) -> Submission:
    """Record groups of operations into kompute's Sequences; those of one group are independent of each other.

    ``memory`` is what they use, and stays until they have ended.

    ``device_only`` says that the host reads nothing that the work writes. With ``timed`` the device writes down its clock
    before the first and after the last operation, where there are any and it has a clock. ``cut_word`` is where those
    ``watched`` say that a loop was cut. Raises DispatchFailed with what recording failed with.
    """
    filled = [group for group in groups if group]
    clock = _layer.take_clock(device.layer) if timed and filled and device.is_timed else None

    def record_filled(manager: Any) -> _layer.Work:  # noqa: ANN401 -- kp has no types
        sequence = manager.sequence()  # its work holds it as long as it may run
        _layer.record(sequence, filled, device_only, clock, clock)
        return _layer.Work(device.layer, sequence.eval, (manager, clock, *memory))

    work = device.call_kompute("record a dispatch", record_filled)
    if cut_word is not None:
        work.watch(cut_word.visible(0, cut_word.byte_len))
    return Submission(device, (work,), (keep, cut_word), clock=clock, watched=watched)


def record_alone(pipeline: BoundPipeline | NoDispatch, push_words: tuple[int, ...]) -> Submission:
    """Return one submission of one pipeline, which holds it, and nothing of what is bound to it, which holds the submission."""
    device = pipeline.device
    if isinstance(pipeline, NoDispatch):
        return Submission(device, (), pipeline)
    return Submission(device, (pipeline.recorded(device.layer, push_words),), pipeline, watched=pipeline.watched)


def record_for_c(pipeline: BoundPipeline | NoDispatch, push_words: tuple[int, ...]) -> _layer.Taken:
    """Return a recording of its own of one pipeline, for C code to run without the GIL.

    Raises
    ------
    DispatchFailed
        If it cannot be recorded, or the device is closed; DeviceLost, ForkError.
    """
    device = pipeline.device
    device.check_usable()
    dispatch = None if isinstance(pipeline, NoDispatch) else pipeline.recorded(device.layer, push_words)
    taken = _layer.Taken(device.layer, device.in_use, dispatch, pipeline)
    device.keep_holder(taken)
    return taken


def batch_label(dispatches: Sequence[BoundKernel]) -> int:
    """Return what a submission of several is called in profiles: their names, and the bytes that they read and write."""
    labels = [label_of_number(one.pipeline.label) for one in dispatches]
    counts = Counter(name for name, _ in labels if name)
    names = [name if times == 1 else f"{name} x{times}" for name, times in counts.items()]
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return label_of(", ".join(names[:_NAMED] + more), sum(moved for _, moved in labels))


def record_in_order(dispatches: Sequence[BoundKernel], pushed: Sequence[tuple[int, ...]], *, timed: bool = False) -> Submission:
    """Return one submission of these: each waits for those before it whose results it needs, and the rest run side by side.

    ``pushed`` are the push constants of each.
    """
    device = dispatches[0].pipeline.device
    watched = [pipeline for one in dispatches for pipeline in one.pipeline.watched]
    word = watched[0].new_cut_word() if watched else None
    operations = [one.pipeline.dispatch(words, word) for one, words in zip(dispatches, pushed, strict=True)]
    groups = [
        [operations[place] for place in group if operations[place] is not None]
        for group in dependency_groups([(one.reads, one.writes) for one in dispatches])
    ]
    keep, device_only = tuple(dispatches), not device.shares_memory
    memory = [held for one in dispatches for held in one.pipeline.memory_with(word)]
    return record(device, groups, keep, device_only=device_only, timed=timed, watched=watched, cut_word=word, memory=memory)


def dependency_groups(accesses: Sequence[tuple[frozenset[Span], frozenset[Span]]]) -> Iterator[list[int]]:
    """Split operations, in order, into runs that need no barrier among themselves; yields the indices of each run.

    Each operation is (spans read, spans written). Two depend on each other when one writes bytes that the other reads or
    writes.
    """
    run: list[int] = []
    read: set[Span] = set()
    written: set[Span] = set()
    for index, (reads, writes) in enumerate(accesses):
        if run and (_share(written, reads | writes) or _share(read, writes)):
            yield run
            run, read, written = [], set(), set()
        run.append(index)
        read |= reads
        written |= writes
    if run:
        yield run


def _share(some: AbstractSet[Span], others: AbstractSet[Span]) -> bool:
    """Whether two sets of spans have a byte in common; most are equal or of other memory."""
    if not some.isdisjoint(others):
        return True
    begins: dict[int, list[Span]] = {}
    for span in some:
        begins.setdefault(span[0], []).append(span)
    return any(one[1] < span[2] and span[1] < one[2] for span in others for one in begins.get(span[0], ()))
