"""Tell which places of a fragment each invocation holds, in the order of its elements: as sums, and as both operands.

Run as ``python -m benchmarks.fragment_places``. Attention leaves weights in registers where sums and operands are alike.
"""

from __future__ import annotations

import argparse

import numpy as np

from vyre_driver import Driver, SpirvModule
from vyre_driver.matrices.elements import F16
from vyre_driver.matrices.function import USE_A, USE_B, USE_SUM, Floats, Fragments, Function, StorageBuffer
from vyre_driver.matrices.operand import ROW_MAJOR
from vyre_driver.spirv.builder import ModuleBuilder
from vyre_driver.spirv.opcodes import BuiltIn, Capability, Decoration, Ins

USES = {"sums": USE_SUM, "operands a": USE_A, "operands b": USE_B}
_LOAD = 4457
_MOST = 64  # elements of an invocation that there is room for


def places_module(side: int, use: int, invocations: int) -> bytes:
    """Return a module that reads a fragment of float16 from ``given`` and writes each invocation's elements as float32."""
    module = ModuleBuilder(0x0001_0600)
    for one in (Capability.Shader, Capability.GroupNonUniform, Capability.VulkanMemoryModel, Capability.CooperativeMatrixKHR):
        module.capability(one)
    module.extension("SPV_KHR_cooperative_matrix")
    module.memory_model(0, 3)
    f = Function(module)
    fragments, floats = Fragments(f), Floats(f)
    kind = fragments.kind(F16, side, side, use)
    given = StorageBuffer(f, "given", 0, kind.element, F16.byte_len, Decoration.NON_WRITABLE)
    held = StorageBuffer(f, "held", 1, floats.type, 4, Decoration.NON_READABLE)
    variable = f.variable(kind.id)
    f.store(variable, f.value(_LOAD, kind.id, given.at(0), f.const(ROW_MAJOR), f.const(side)))
    lane = f.built_in(BuiltIn.SUBGROUP_LOCAL_INVOCATION_ID)
    for e in fragments.elements(kind):
        f.store(held.at(lane * _MOST + e), floats.of(Ins.FConvert, fragments.element(kind, variable, e)))
    f.finish((invocations, 1, 1))
    return module.build()


def held_places(driver: Driver, side: int, use: int) -> list[list[tuple[int, int]]]:
    """Return the (row, column) of each element, by invocation."""
    invocations = driver.device.subgroup_size
    kernel = driver.compile(SpirvModule.from_bytes(places_module(side, use, invocations)))
    numbers = np.arange(side * side).astype(np.float16)  # exact to 2048
    with driver.buffer(numbers) as given, driver.buffer(np.full(invocations * _MOST, -1, np.float32)) as held:
        kernel.bind(given, held, workgroups=(1, 1, 1)).run()
        found = held.read().reshape(invocations, _MOST).astype(int)
    return [[divmod(int(one), side) for one in row if one >= 0] for row in found]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--side", type=int, default=16, help="rows and columns of a fragment (default 16)")
    options.add_argument("--device", help="as vyre-driver's --device")
    given = options.parse_args()
    with Driver(given.device, allow_software=True) as driver:
        places = {name: held_places(driver, given.side, use) for name, use in USES.items()}
    for name, by_invocation in places.items():
        for number in (0, 1, len(by_invocation) - 1):
            print(f"{name}, invocation {number}: {' '.join(f'{row},{column}' for row, column in by_invocation[number])}")
    for name in ("operands a", "operands b"):
        print(f"{name} lie as sums: {places[name] == places['sums']}")


if __name__ == "__main__":
    main()
