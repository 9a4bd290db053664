"""A pipeline bound to buffers."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.errors import KernelCompileFailed
from vyre_driver.kompute.memory import TensorBuffer
from vyre_driver.kompute.results import cut_error
from vyre_driver.telemetry._timeline import label_of
from vyre_driver.telemetry.stages import Stage
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.errors import LoopCut
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.kompute.views import Pieces
    from vyre_driver.lowering.source import PipelineSource


_SHARED = _layer.PipelineFacts(created=True, shared=True, cache_hit=None, compile_ns=0, blob=None)
_WORD_BYTES = 4
OF_LOOPS = "(loops)"
"""The name of the buffers in which kernels say that the driver has cut a loop."""
_MOST_PARTS = 64  # that the layer binds itself


class BoundPipeline:
    """One pipeline on buffers, for one grid, which have the binding numbers 0..n-1 of set 0, in their order.

    ``facts`` tells how the pipeline came to be, ``pipeline_ns`` how long kompute took for it.
    """

    __slots__ = (
        "__weakref__",
        "_algorithm",
        "_cut_word",
        "_groups",
        "_handles",
        "_is_recorded",
        "_label",
        "_pieces",
        "_source",
        "buffers",
        "device",
        "facts",
        "pipeline_ns",
    )

    def __init__(
        self,
        device: KomputeDevice,
        source: PipelineSource,
        pieces: Pieces,
        groups: tuple[int, int, int],
        kept: _layer.Bound | None = None,
    ) -> None:
        """Make the pipeline, or bind the buffers to one of the same source that was ``kept``.

        Raises KernelCompileFailed if the Vulkan driver refuses the module.
        """
        self.device = device
        self.buffers = pieces.memory
        self._source = source
        self._pieces = pieces
        self._groups = groups
        self._algorithm: Any = None
        self._label = 0
        self._is_recorded = False
        self._cut_word = self.new_cut_word()
        self.facts, self.pipeline_ns = _SHARED, 0
        if kept is None:
            self._algorithm, self.facts, self._handles, self.pipeline_ns = self._make(self._cut_word)
        else:
            self._handles = self._bind(device.layer, kept, self._cut_word)
        device.keep_holder(self)

    @property
    def cut_word(self) -> TensorBuffer | None:
        """The word in which a run says that the driver has cut a loop; None where no loop is watched."""
        return self._cut_word

    def cut_error(self) -> LoopCut:
        """Return the error of a run in which the driver has cut a loop."""
        return cut_error(f"kernel {self._source.name!r}", self.device.physical.name, self._source.loop_limit)

    @property
    def name(self) -> str:
        """The kernel's name in profiles."""
        return self._source.name

    @property
    def loop_limit(self) -> int:
        """The turns after which the driver cuts the loops of its code, 0 where it cuts none."""
        return self._source.loop_limit

    @property
    def watched(self) -> tuple[BoundPipeline, ...]:
        """Itself, where a run says that the driver has cut a loop."""
        return (self,) if self._source.watches_loops else ()

    def new_cut_word(self) -> TensorBuffer | None:
        """Return a word for it, None where no loop is watched."""
        if not self._source.watches_loops:
            return None
        word = TensorBuffer(self.device, _WORD_BYTES, _WORD_BYTES, name=OF_LOOPS)
        word.write(None)
        return word

    def _bind(self, layer: _layer.LayerDevice, like: _layer.Bound, cut_word: TensorBuffer | None) -> _layer.Bound:
        """Bind its buffers, with this word behind them, to a pipeline."""
        with self.device.in_use:
            bound = _layer.bind_buffers(layer, like, self._pieces.watched(cut_word).parts)
        if isinstance(bound, _layer.Failure):
            raise self.device.error_of(bound)
        return bound

    @property
    def label(self) -> int:
        """What its dispatches are called in profiles: the kernel's name, and the bytes that it reads and writes."""
        if not self._label:
            bound = [part[2] for part in self._pieces.parts]
            moved = sum(each * byte_len for each, byte_len in zip(self._source.traversals, bound, strict=False))
            self._label = label_of(self._source.name, moved)
        return self._label

    def _make(self, cut_word: TensorBuffer | None) -> tuple[Any, _layer.PipelineFacts, _layer.Bound, int]:
        """Have kompute make an algorithm; returns it, its facts, what it binds, and the ns that it took."""
        device, source, parts = self.device, self._source, self._pieces.watched(cut_word).parts
        start = time.perf_counter_ns()
        # kompute turns constants into floats unless it is given both arrays, both of one integer type.
        pushed = _words((0,) * (source.push_constant_bytes // 4))
        arguments = ([device.stand_in] * len(parts), source.code, self._groups, _words(source.spec_words), pushed)
        algorithm, facts, handles = device.call_kompute(
            "make a pipeline",
            lambda manager: _layer.create_pipeline(
                device.layer, manager.algorithm, arguments, source.native or None, parts, source.subgroup_size
            ),
            KernelCompileFailed,
        )
        pipeline_ns = time.perf_counter_ns() - start
        device.timeline.add(Stage.PIPELINE, start, 0, source.name)
        if not algorithm.is_init():
            raise KernelCompileFailed(
                f"the Vulkan driver of {device.physical.name!r} made no pipeline of the shader",
                fix="run spirv-val on the module",
            )
        return algorithm, facts, handles, pipeline_ns

    def memory_with(self, cut_word: TensorBuffer | None) -> list[_layer.Allocation]:
        """Return the memory that its dispatches use, and that of the word in which a loop that was cut is noted."""
        pieces = self._pieces.watched(cut_word)
        return [held for one in pieces.memory + pieces.kept for held in one.held]

    def kept(self) -> _layer.Bound | None:
        """Return its pipeline, to bind other buffers to; None where it binds too many of them."""
        device = self.device
        if len(self._pieces.watched(self._cut_word).memory) > _MOST_PARTS:
            return None
        with device.in_use:
            found = _layer.keep_bound(device.layer, self._handles)
        if found is not None:
            device.keep_holder(found)
        return found

    def dispatch(self, push_words: tuple[int, ...], cut_word: TensorBuffer | None = None) -> Any:  # noqa: ANN401 -- kp has no types
        """Return the operation that dispatches it with these push constants, for kompute to record.

        It says in ``cut_word``, in place of its own word, that the driver has cut a loop.
        """
        algorithm = self._algorithm
        if self._cut_word is not None and cut_word is not None:
            algorithm = self._make(cut_word)[0]
        elif algorithm is None:
            algorithm = self._algorithm = self._make(self._cut_word)[0]
        operation = self.device.api.dispatch(algorithm, _words(push_words))
        pieces = self._pieces
        return (operation, pieces.before, pieces.after) if pieces.kept else operation

    def recorded(self, layer: _layer.LayerDevice, push_words: tuple[int, ...], *, is_alone: bool = False) -> _layer.Dispatch:
        """Return its dispatch with these push constants in a command buffer of the layer's, which holds what is bound.

        Each has a word of its own for a loop that was cut, where the layer can bind one: several may be under way, unless this
        ``is_alone``.

        Raises
        ------
        DispatchFailed
            If it cannot be recorded, or the device is closed; DeviceLost, ForkError.
        """
        device, pieces = self.device, self._pieces
        copies = (pieces.before, pieces.after) if pieces.kept else None
        handles, cut_word = self._handles, self._cut_word
        like = self.kept() if cut_word is not None and self._is_recorded and not is_alone else None
        if like is not None:
            cut_word = self.new_cut_word()
            handles = self._bind(layer, like, cut_word)
        self._is_recorded = True
        # Not this object: the collector takes apart what a cycle holds before the work that uses it has waited for its end.
        with device.in_use:
            made = _layer.record_dispatch(
                layer,
                handles,
                self._groups,
                _push_bytes(push_words),
                copies,
                not device.shares_memory,
                (device.manager, self._algorithm, handles, *self.memory_with(cut_word)),
                label=self.label,
            )
        if isinstance(made, _layer.Failure):
            raise device.error_of(made)
        if cut_word is not None:
            made.watch(cut_word.visible(0, _WORD_BYTES))
        return made


def prepare_layout(device: KomputeDevice, buffers: int, push_bytes: int) -> None:
    """Make the layout now of a pipeline of so many buffers and bytes of push constants: some drivers take 5 ms for it."""
    with device.in_use:
        _layer.prepare_layout(device.layer, buffers, push_bytes)


@functools.lru_cache(maxsize=256)
def _words(values: tuple[int, ...]) -> NDArray[np.uint32]:
    """Return words as kompute takes them, which copies them; the same few come again and again."""
    words = np.array(values, np.uint32)
    words.flags.writeable = False
    return words


@functools.lru_cache(maxsize=256)
def _push_bytes(words: tuple[int, ...]) -> bytes:
    """Return words as a device reads them."""
    return _words(words).tobytes()
