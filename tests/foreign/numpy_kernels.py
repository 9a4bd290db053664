"""Kernels of packages that ship GLSL, whose meaning is plain: compiled with their build's defines, compared with numpy."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver import Driver, SpirvModule

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from vyre_driver import Kernel

INCLUDES = "#extension GL_GOOGLE_include_directive : require"  # their build's compiler needs no asking
SIZE = 500  # no multiple of a workgroup
REST = dict.fromkeys(("KX", "KY"), SIZE) | dict.fromkeys(("param1", "param2", "param3", "param4"), 0.0)
A = np.linspace(-3, 3, SIZE, dtype=np.float32)
B = np.cos(np.arange(SIZE, dtype=np.float32))
UNARY = [f"ne{a}{b}" for a in "01" for b in "0123"] + [f"nb{a}{b}" for a in "01" for b in "0123"]
UNARY += [f"ne{a}_{b}" for a in "01" for b in ("012mp", "01mp", "0mp", "Ls")] + ["misalign_offsets"]


@dataclass(frozen=True, slots=True)
class Plain:
    """A shader's file, the defines of its variant, its call, and what must come of it."""

    file: str
    defines: dict[str, str]
    call: Callable[[Kernel], Any]
    expected: NDArray[Any]
    tolerance: float = 0.0

    @property
    def name(self) -> str:
        """The file and its defines."""
        return f"{self.file} {' '.join(f'{name}={value}' for name, value in self.defines.items())}".strip()


def flat(**values: float) -> dict[str, float]:
    return {**REST, **values}


def unary(**values: float) -> dict[str, float]:
    return {
        **dict.fromkeys(UNARY, 1),
        "ne": SIZE,
        "misalign_offsets": 0,
        **{name: REST[name] for name in REST if "p" in name},
        **values,
    }


SIGMOID = 1 / (1 + np.exp(-B.astype(np.float64)))
F32, F16 = "float", "float16_t"
HALVES = A.astype(np.float16)
KERNELS = [
    Plain("fill.comp", {"D_TYPE": F32, "FLOAT_TYPE": F32},
          lambda k: k(out_shapes={"data_d": SIZE}, workgroups=1, **flat(param1=2.5)), np.full(SIZE, 2.5, np.float32)),
    Plain("fill.comp", {"D_TYPE": F16, "FLOAT_TYPE": F32},
          lambda k: k(out_shapes={"data_d": SIZE}, workgroups=1, **flat(param1=2.5)), np.full(SIZE, 2.5, np.float16)),
    Plain("arange.comp", {"A_TYPE": F32, "D_TYPE": F32, "FLOAT_TYPE": F32},
          lambda k: k(out_shapes={"data_d": SIZE}, workgroups=1, **flat(param1=3, param2=0.5)),
          3 + np.arange(SIZE, dtype=np.float32) / 2),
    Plain("scale.comp", {"A_TYPE": F32, "D_TYPE": F32, "FLOAT_TYPE": F32},
          lambda k: k(A, out_shapes={"data_d": SIZE}, workgroups=1, **unary(param1=4, param2=-1)), A * 4 - 1, 1e-6),
    Plain("contig_copy.comp", {"A_TYPE": F32, "D_TYPE": F32},
          lambda k: k(A, out_shapes={"data_d": SIZE}, workgroups=1, **unary()), A),
    Plain("contig_copy.comp", {"A_TYPE": F32, "D_TYPE": F16},
          lambda k: k(A, out_shapes={"data_d": SIZE}, workgroups=1, **unary()), HALVES, 1e-3),
    Plain("contig_copy.comp", {"A_TYPE": F16, "D_TYPE": F32},
          lambda k: k(HALVES, out_shapes={"data_d": SIZE}, workgroups=1, **unary()), HALVES.astype(np.float32)),
    Plain("silu_back.comp", {"A_TYPE": F32, "B_TYPE": F32, "D_TYPE": F32},
          lambda k: k(A, B, out_shapes={"data_d": SIZE}, workgroups=1, **flat()),
          A * (SIGMOID + B * SIGMOID * (1 - SIGMOID)), 1e-5),
    Plain("opt_step_sgd.comp", {"A_TYPE": F32}, lambda k: k(A, B, np.array([0.1, 0.5], np.float32), workgroups=1, **flat()),
          A * np.float32(0.95) - np.float32(0.1) * B, 1e-6),
    Plain("ShaderOpMult.comp", {}, lambda k: k(A, B, np.zeros(SIZE, np.float32), workgroups=SIZE)[-1], A * B),
]  # fmt: skip


def compiled(file: Path, defines: dict[str, str], output: Path) -> bytes:
    """Compile a file for Vulkan 1.2, as its build does, with its folder's includes."""
    tool = shutil.which("glslangValidator")
    if tool is None:
        raise FileNotFoundError("glslangValidator")
    version, _, rest = file.read_text("utf-8").partition("\n")
    source = output.with_suffix(".comp")
    source.write_text(f"{version}\n{INCLUDES}\n{rest}", "utf-8")
    flags = [f"-I{file.parent}", *(f"-D{name}={value}" for name, value in defines.items())]
    command = [tool, "-V", "--target-env", "vulkan1.2", "-S", "comp", *flags, "-o", str(output), str(source)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{file.name}: {done.stdout}")
    return output.read_bytes()


def right(driver: Driver, kernel: Plain, code: bytes) -> bool:
    """Whether the kernel computes what numpy does."""
    found = kernel.call(driver.compile(SpirvModule.from_bytes(code, name=kernel.file)))
    return bool(np.allclose(found, kernel.expected, rtol=kernel.tolerance, atol=kernel.tolerance))
