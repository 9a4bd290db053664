"""What a big pipeline costs a fresh process: raw kompute, ours without and with an entry; the driver's own cache off and on.

Each figure is a process of its own. The shader is generated, about 190 KB of SPIR-V; a CPU device takes minutes for it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.plain_kompute import plain_kompute
from benchmarks.timing import Row, parser, print_rows
from vyre_driver import Driver, SpirvModule
from vyre_driver.vulkan.devices import enumerate_devices
from vyre_driver.vulkan.selection import select_device

BLOCKS = 121
DRIVER_CACHE_OFF = {"__GL_SHADER_DISK_CACHE": "0", "MESA_SHADER_CACHE_DISABLE": "true"}


def big_shader(blocks: int) -> str:
    """Return GLSL of so many blocks: a loop that compilers unroll, with branches, and an exchange through shared memory."""
    lines = [
        "#version 450",
        "layout(local_size_x = 64) in;",
        "layout(binding = 0) readonly buffer X { float x[]; };",
        "layout(binding = 1) buffer Y { float y[]; };",
        "shared float row[64];",
        "void main() {",
        "uint i = gl_GlobalInvocationID.x, own = gl_LocalInvocationID.x;",
        "float total = y[i % y.length()];",
    ]
    for block in range(1, blocks + 1):
        lines += [
            f"float part{block} = total;",
            f"for (uint k = 0u; k < {6 + block % 10}u; k++) {{",
            f"float here = x[(i * {3 * block}u + k) % x.length()] * x[(i + {block + 5}u * k) % x.length()];",
            f"if (part{block} > {block}.25) part{block} = cos(part{block} + here) * {block}.5 + exp(-here * 0.02);",
            f"else part{block} = sqrt(abs(part{block} - here) + {block}.0) + sin(here); }}",
            f"row[own] = part{block}; barrier();",
            f"total += row[(own + {block}u) % 64u]; barrier();",
        ]
    return "\n".join([*lines, "if (i < y.length()) y[i] = total;", "}"])


def ours(module: SpirvModule, device: str | None) -> dict[str, object]:
    """Compile, call once, and tell what the pipeline took."""
    with Driver(device, allow_software=True) as driver:
        x = np.ones(64, np.float32)
        began = time.perf_counter_ns()
        kernel = driver.compile(module)
        kernel(x, x, workgroups=(1,))
        took = time.perf_counter_ns() - began
        facts = kernel.trace.pipeline
        in_driver_ns = facts.compile_ns if facts is not None else 0
        return {"ms": kernel.trace.pipeline_ns / 1e6, "in_driver_ms": in_driver_ns / 1e6, "first_call_ms": took / 1e6}


def raw(module: SpirvModule, device: str | None) -> dict[str, object]:
    """Make the algorithm as kompute's README does."""
    physical = select_device(enumerate_devices(), device, allow_software=True)
    kp = plain_kompute()
    family = physical.compute_family
    manager = kp.Manager(physical.index, [family.index if family else 0], [])
    tensors = [manager.tensor(np.ones(64, np.float32)) for _ in range(2)]
    empty = np.zeros(0, np.uint32)
    began = time.perf_counter_ns()
    algorithm = manager.algorithm(tensors, module.code, (1, 1, 1), empty, empty)
    took = time.perf_counter_ns() - began
    del algorithm
    manager.destroy()
    return {"ms": took / 1e6}


def in_a_process(contender: str, code: Path, device: str | None, environment: dict[str, str]) -> dict[str, float]:
    """Run one contender in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.pipeline", "--contender", contender, "--code", str(code)]
    command += ["--device", device] if device else []
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(code: Path, device: str | None, folder: Path, rounds: int) -> list[Row]:
    """Run all contenders, round by round."""
    figures: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds):
        for what, drivers_cache in (("driver's cache off", DRIVER_CACHE_OFF), ("driver's cache on", {})):
            place = folder / f"{number} {what}"
            kept = {"__GL_SHADER_DISK_CACHE_PATH": f"{place}/driver", "MESA_SHADER_CACHE_DIR": f"{place}/driver"}
            (place / "driver").mkdir(parents=True)
            environment = drivers_cache | kept | {"VYRE_CACHE_DIR": f"{place}/ours"}
            for name, contender in (
                ("kp, first", "raw"),
                ("kp, again", "raw"),
                ("ours, first", "ours"),
                ("ours, again", "ours"),
            ):
                took = in_a_process(contender, code, device, environment)
                figures.setdefault((what, name), []).append(took["ms"] * 1000)
                if "in_driver_ms" in took:
                    figures.setdefault((what, f"{name}, in driver"), []).append(took["in_driver_ms"] * 1000)
    return [Row(what, name, sorted(found)[len(found) // 2], min(found), max(found)) for (what, name), found in figures.items()]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--contender", choices=["ours", "raw"], help="measure one, in this process")
    options.add_argument("--code", type=Path, help="the shader's SPIR-V")
    options.add_argument("--blocks", type=int, default=BLOCKS, help=f"size of the shader (default {BLOCKS}; 6 on a CPU device)")
    options.set_defaults(rounds=3)
    given = options.parse_args()
    if given.contender:
        module = SpirvModule.from_file(given.code)
        print(json.dumps({"ours": ours, "raw": raw}[given.contender](module, given.device)))
        return
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder) / "big.spv"
        code.write_bytes(SpirvModule.from_glsl(big_shader(given.blocks)).code)
        rows = measure(code, given.device, Path(folder), given.rounds)
        physical = select_device(enumerate_devices(), given.device, allow_software=True)
        facts = {
            "device": physical.name,
            "driver": f"{physical.driver_name} {physical.driver_info}".strip(),
            "api_version": physical.api,
            "kp": plain_kompute().__name__,
            "spirv_bytes": code.stat().st_size,
            "rounds": given.rounds,
        }
        print_rows(rows, facts, as_json=given.json)


if __name__ == "__main__":
    main()
