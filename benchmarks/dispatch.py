"""What a dispatch costs, and all around it: ours, raw kompute, bare Vulkan in C, and PyTorch where it and CUDA are there."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.plain_kompute import plain_kompute
from benchmarks.timing import Row, interleave, parser, print_rows, time_call
from vyre_driver import Driver, SpirvModule, _fast, get_include

if TYPE_CHECKING:
    from collections.abc import Callable

_COUNT = 64
_CHAIN = 100
_BUSY_S = 0.1  # an idle H200 has a fifth of its clock
_MORE_THAN_REMEMBERED = 40  # a kernel remembers 32 bindings
_ADD = """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < y.length()) y[i] = y[i] + x[i]; }
"""
_NO_WORDS = np.zeros(0, np.uint32)


class Raw:
    """kompute as its README uses it, with what is recorded kept and replayed."""

    def __init__(self, index: int, family: int, code: bytes) -> None:
        self.kp, self.code = plain_kompute(), code
        self.manager = self.kp.Manager(index, [family], [])

    def tensors(self, count: int = _COUNT) -> list[Any]:
        return [self.manager.tensor_t(np.ones(count, np.uint32)) for _ in range(2)]

    def algorithm(self, tensors: list[Any]) -> Any:
        return self.manager.algorithm(tensors, self.code, (1, 1, 1), _NO_WORDS, _NO_WORDS)

    def sequence(self, *operations: Any) -> Any:
        sequence = self.manager.sequence()
        for operation in operations:
            sequence.record(operation)
        return sequence

    def sync_device(self, tensors: list[Any]) -> Any:
        return getattr(self.kp, "OpTensorSyncDevice", None or getattr(self.kp, "OpSyncDevice", None))(tensors)

    def sync_local(self, tensors: list[Any]) -> Any:
        return getattr(self.kp, "OpTensorSyncLocal", None or getattr(self.kp, "OpSyncLocal", None))(tensors)


class Torch:
    """PyTorch in a process of its own, one figure a request."""

    def __init__(self, repeats: int) -> None:
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/tmp"}  # noqa: S108 -- it writes nothing there
        script = Path(__file__).with_name("torch_peer.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), str(repeats)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.version = self._read()

    def measure(self, what: str) -> float:
        if self._process.stdin is None:
            raise AssertionError("the process was started with pipes")
        print(what, file=self._process.stdin, flush=True)
        return float(self._read())

    def _read(self) -> str:
        return self._process.stdout.readline().strip() if self._process.stdout else ""


class FromC:
    """``from_c.c``, compiled here and called without the interpreter's lock: a bound kernel run through the C table."""

    def __init__(self, bound: object, repeats: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        library = Path(self._folder.name) / "from_c.so"
        compiler = shutil.which("cc") or shutil.which("gcc")
        command = [
            "-O2",
            "-shared",
            "-fPIC",
            f"-I{get_include()}",
            str(Path(__file__).with_name("from_c.c")),
            "-o",
            str(library),
        ]
        self.is_there = compiler is not None and not subprocess.call([compiler, *command], stderr=subprocess.DEVNULL)
        if self.is_there:
            pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
            pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            self._table = ctypes.c_void_p(pointer_of(vars(_fast)["_C_API"], b"vyre_driver._fast._C_API"))
            self._call = ctypes.CDLL(str(library)).run_from_c
            self._call.restype = ctypes.c_double
            self._arguments = ctypes.py_object(bound), ctypes.c_int(repeats)

    def measure(self) -> float:
        """Return the median microseconds of a run."""
        took = float(self._call(self._table, *self._arguments))
        if took < 0:
            raise AssertionError("the bound kernel cannot be run from C")
        return took


class BareVulkan:
    """``bare_vulkan.c`` in a process of its own: what no Vulkan program can go below."""

    def __init__(self, code: bytes, index: int, family: int, repeats: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        program, shader = (Path(self._folder.name) / name for name in ("bare_vulkan", "add.spv"))
        shader.write_bytes(code)
        compiler = shutil.which("cc") or shutil.which("gcc")
        source = Path(__file__).with_name("bare_vulkan.c")
        self.is_there = compiler is not None and not subprocess.call(
            [compiler, "-O2", str(source), "-o", str(program), "-lvulkan"], stderr=subprocess.DEVNULL
        )
        if self.is_there:
            command = [str(program), str(shader), str(index), str(family), str(repeats)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self) -> float:
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("the process was started with pipes")
        print(file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())


def main() -> None:
    options = parser(__doc__).parse_args()
    module = SpirvModule.from_glsl(_ADD)
    with Driver(options.device, allow_software=True) as driver:
        physical = driver.device
        family = physical.compute_family
        raw = Raw(physical.index, family.index if family else 0, module.code)
        torch = Torch(options.repeats)
        bare = BareVulkan(module.code, physical.index, family.index if family else 0, options.repeats)
        rows: list[Row] = []
        for what, ours_and_raw in cases(driver, module, raw, options.repeats).items():
            peers = torch_case(torch, what) if torch.version else {}
            if bare.is_there and what == "resident dispatch":
                peers["bare C"] = bare.measure
            rows += interleave(what, ours_and_raw | peers, options.rounds, _BUSY_S)
        facts = {**driver.report(), "kp": raw.kp.__name__, "torch": torch.version or "absent"}
        facts |= {"repeats": options.repeats, "rounds": options.rounds, "busy_s": _BUSY_S}
        print_rows(rows, facts, as_json=options.json)


def torch_case(torch: Torch, what: str) -> dict[str, Callable[[], float]]:
    known = {"resident dispatch": "resident", "256 B up, dispatch, 256 B down": "round_trip", "100 dependent, each": "chain"}
    return {"torch": lambda: torch.measure(known[what])} if what in known else {}


def cases(driver: Driver, module: SpirvModule, raw: Raw, repeats: int) -> dict[str, dict[str, Callable[[], float]]]:
    kernel = driver.compile(module)
    x = driver.buffer(np.ones(_COUNT, np.float32))
    y = driver.buffer(np.ones(_COUNT, np.float32))
    bound = kernel.bind(x, y, workgroups=(1,))
    host_x, host_y = np.ones(_COUNT, np.float32), np.ones(_COUNT, np.float32)
    dependent, independent = driver.batch(), driver.batch()
    for _ in range(_CHAIN):
        dependent.add(bound)
    for _ in range(_CHAIN):
        independent.add(kernel.bind(driver.empty(_COUNT, np.float32), driver.empty(_COUNT, np.float32), workgroups=(1,)))
    tensors = raw.tensors()
    algorithm = raw.algorithm(tensors)
    dispatch = raw.kp.OpAlgoDispatch(algorithm, _NO_WORDS)
    replay = raw.sequence(dispatch)
    round_trip = raw.sequence(raw.sync_device(tensors), dispatch, raw.sync_local(tensors[1:]))
    chain = raw.sequence(*[dispatch] * _CHAIN)
    few = max(repeats // 10, 5)

    def raw_round_trip() -> Any:
        tensors[0].data()[:] = host_x.view(np.uint32)
        tensors[1].data()[:] = host_y.view(np.uint32)
        round_trip.eval()
        return tensors[1].data().copy()

    pairs = [(driver.empty(_COUNT, np.float32), driver.empty(_COUNT, np.float32)) for _ in range(_MORE_THAN_REMEMBERED)]
    next_pair = itertools.cycle(pairs)

    def bind_new() -> None:
        kernel.bind(*next(next_pair), workgroups=(1,)).run()

    def raw_bind() -> None:
        raw.sequence(raw.kp.OpAlgoDispatch(raw.algorithm(tensors), _NO_WORDS)).eval()

    def raw_cycle() -> None:
        pair = raw.tensors()
        raw.sequence(raw.sync_device(pair), raw.kp.OpAlgoDispatch(raw.algorithm(pair), _NO_WORDS), raw.sync_local(pair)).eval()
        pair[1].data().copy()

    def our_cycle() -> None:
        pair = driver.buffer(host_x), driver.buffer(host_y)
        kernel.bind(*pair, workgroups=(1,)).run()
        pair[1].read()

    def time_ours(call: Callable[[], object], divide_by: int = 1, times: int = repeats) -> Callable[[], float]:
        return lambda: time_call(call, times, divide_by)

    from_c = FromC(bound, repeats)
    resident = {"ours": time_ours(bound.run), "kp": time_ours(replay.eval)}
    return {
        "resident dispatch": resident | ({"ours from C": from_c.measure} if from_c.is_there else {}),
        "256 B up, dispatch, 256 B down": {
            "ours": time_ours(lambda: kernel(host_x, host_y, workgroups=(1,))),
            "kp": time_ours(raw_round_trip),
        },
        "100 independent, each": {"ours": time_ours(independent.run, _CHAIN, few)},
        "100 dependent, each": {"ours": time_ours(dependent.run, _CHAIN, few), "kp": time_ours(chain.eval, _CHAIN, few)},
        "new buffers bound, first run": {"ours": time_ours(bind_new, 1, few), "kp": time_ours(raw_bind, 1, few)},
        "buffers seen before bound, run": {
            "ours": time_ours(lambda: kernel.bind(x, y, workgroups=(1,)).run(), 1, few),
            "kp": time_ours(raw_bind, 1, few),
        },
        "alloc, bind, run, read, free": {"ours": time_ours(our_cycle, 1, few), "kp": time_ours(raw_cycle, 1, few)},
        "buffer create and free, 256 B": {
            "ours": time_ours(lambda: driver.empty(_COUNT, np.float32).close(), 1, few),
            "kp": time_ours(lambda: raw.manager.tensor_t(np.ones(_COUNT, np.uint32)).destroy(), 1, few),
        },
    }


if __name__ == "__main__":
    main()
