"""Kernels and calls that are right: mypy --strict and pyright have nothing to say of them (test_typing.py)."""

import math
from dataclasses import dataclass
from typing import Annotated, TypeVar

import numpy as np

import vyre_driver
from vyre_driver.autotune import Budget
from vyre_driver.lang import (
    Const,
    Group,
    In,
    In1,
    In2,
    In3,
    Index,
    InOut,
    InOut2,
    Kernel,
    Out,
    Out2,
    Reduction,
    Scan,
    atomic_add,
    atomic_cas,
    atomic_load,
    bf16,
    bitcast,
    bool_,
    cdiv,
    default_driver,
    elementwise,
    f16,
    f32,
    f64,
    fma,
    function,
    fuse,
    i32,
    i64,
    kernel,
    lane,
    local,
    reduction,
    rotl,
    scan,
    select,
    shuffle_xor,
    static_range,
    subgroup_sum,
    u8,
    u32,
    u64,
)

Tile = Annotated[Group, 16, 16]
WEIGHTS = (0.25, 0.5, 0.25)
BLOCK = 256
T = TypeVar("T", f32, i32)


@kernel
def saxpy(i: Index, x: In[f32], y: InOut[f32], a: f32) -> None:
    y[i] = a * x[i] + y[i]


@kernel
def number_first(i: Index, n: i32, x: In[f32], out: Out[f32]) -> None:
    if i < n:
        out[i] = x[i] if x[i] > 1.0 else 0.0


@kernel
def heat(i: Index, j: Index, before: In2[f32], after: Out2[f32], k: f32) -> None:
    rows, columns = before.shape
    if 0 < i < rows - 1 and 0 < j < columns - 1:
        around = before[i - 1, j] + before[i + 1, j] + before[i, j - 1] + before[i, j + 1]
        after[i, j] = before[i, j] + k * (around - 4.0 * before[i, j])


@kernel
def volume(i: Index, j: Index, k: Index, field: In3[f32], out: InOut[f32]) -> None:
    out[i, j, k] += field[i, j, k] * len(field) / field.shape[2]


@function
def pull(dx: float, dy: float, soft: float) -> float:
    return 1.0 / math.sqrt(dx * dx + dy * dy + soft)


@dataclass(frozen=True)
class Point:
    x: f32
    y: f32

    def squared(self) -> f32:
        return self.x * self.x + self.y * self.y


@kernel
def forces(i: Index, at: In[f32], out: Out[f32], soft: f32) -> None:
    total = 0.0
    for other in range(len(at)):
        total += pull(at[other] - at[i], Point(at[i], 1.0).squared(), soft)
        if total > 1e6:
            break
    out[i] = fma(total, 2.0, min(at[i], 1.0)) + abs(math.sin(at[i])) + np.floor(at[i]) + math.pow(total, 2)


@kernel
def histogram(i: Index, values: In[u8], counts: InOut[u32]) -> None:
    before = atomic_add(counts, values[i], u32(1))
    if before == atomic_load(counts, 0):
        atomic_cas(counts, 0, 0, 1)


@kernel(signature="(m,k),(k,n)->(m,n)", over="m, n", floats="fast", bounds="checked")
def matmul(g: Tile, a: In[f32], b: In[f32], c: Out[f32], *, SIZE: Const[int] = 16) -> None:
    part_a, part_b = g.shared(f32, 16, 16), g.shared(f32, SIZE, SIZE)
    row, col = g.index
    y, x = g.local
    total = 0.0
    for t in range(cdiv(a.shape[1], SIZE)):
        part_a[y, x] = a[row, t * SIZE + x]
        part_b[y, x] = b[t * SIZE + y, col]
        g.barrier()
        for k in static_range(16):
            total = fma(part_a[y, k], part_b[k, x], total)
        g.barrier()
    c[row, col] = total


@kernel
def block_sum(g: Annotated[Group, "BLOCK"], x: In1[f32], out: Out[f32], *, BLOCK: Const[int] = 256) -> None:
    part = g.shared(f32, BLOCK)
    part[g.local] = x[g.index]
    g.barrier()
    total = subgroup_sum(part[g.local]) + shuffle_xor(part[g.local], 1) * lane() + f32(g.size + g.groups)
    if g.local == 0:
        out[g.id] = total


@kernel
def bits(i: Index, words: InOut[u32], flags: In[bool_], weights: InOut2[f32]) -> None:
    k = i32(i)
    while k > 0 and not flags[k]:
        k //= 2
        if k % 2 == 1:
            continue
    words[i] = select(flags[i], rotl(words[i], k), u32(0))
    weights[i, 0] = WEIGHTS[0] * BLOCK


@kernel(tune={"BLOCK": [64, 128]}, checks=False, debug=True)
def tuned(g: Annotated[Group, "BLOCK"], x: InOut[f32], *, BLOCK: Const[int] = 64) -> None:
    x[g.index] = x[g.index] * 2.0 + BLOCK


@kernel(tune=True, checks=True)
def checked(i: Index, x: In[f32], y: InOut[f32]) -> None:
    assert i < 64
    y[i] = x[i]


@kernel
def median(i: Index, x: In[f32], out: Out[f32]) -> None:
    near = local(f32, 3)
    seen = local(i32, (2, 2))
    for k in range(3):
        near[k] = x[i + k - 1]
    seen[0, 1] += 1
    out[i] = max(min(near[0], near[1]), min(max(near[0], near[1]), near[2])) * f32(seen[0, 1])


@kernel
def wide(i: Index, halves: In[f16], words: InOut[u64], sums: Out[f64], brain: In[bf16], n: i64) -> None:
    words[i] = words[i] ^ u64(bitcast(u32, halves[i]))
    sums[i] = f64(halves[i]) * f64(n) + f64(brain[i])


@kernel
def scaled(i: Index, x: In[T], y: Out[T]) -> None:
    y[i] = x[i] + x[i]


@elementwise
def blend(x: f32, y: f32, part: f32) -> f32:
    return x + (y - x) * part


@elementwise()
def polar(x: f32, y: f32) -> tuple[f32, f32]:
    return math.hypot(x, y), math.atan2(y, x)


@elementwise
def larger(x: T, y: T) -> T:
    return x if x * x > y * y else y


@reduction(zero=-math.inf)
def largest(a: f32, b: f32) -> f32:
    return max(a, b)


@scan
def running_sum(a: f32, b: f32) -> f32:
    return a + b


@kernel
def mixed(i: Index, x: In[f32], y: InOut[f32]) -> None:
    length, angle = polar(x[i], y[i])
    y[i] = blend(length, angle, part=0.5) + larger(x[i], 1.0)


def tuning() -> float:
    budget = Budget(seconds=0.1)
    return tuned.tune(x, seconds=0.1).seconds + saxpy.tune(x, y, a=2.0, budget=budget, replace=False).best.median_ns


x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
bytes_, words = np.zeros(64, np.uint8), np.zeros(64, np.uint32)
square = np.zeros((16, 16), np.float32)
saxpy(x, y, 2.0)
saxpy(x, y, a=2)
saxpy(x, y=y, a=2.0)
saxpy(x, y, 2.0, timeout=1.0)
saxpy(x, y, 2.0, label="first", strict=True)
saxpy.over(64)(x, y, 2.0)
number_first(n=3, x=x, out=y)
result = number_first(3, x)
result = number_first(3, x, y)
heat(square, square.copy(), 0.1)
heat(square, 0.1)
heat(square, k=0.1)
volume(np.zeros((2, 2, 2), np.float32), np.zeros((2, 2, 2), np.float32))
forces(x, y, 0.1)
histogram(bytes_, words)
c = matmul(square, square)
c = matmul(square, square, SIZE=16)
c = matmul(square, square, np.empty((16, 16), np.float32), SIZE=16)
block_sum.with_(BLOCK=128).groups(2)(x, y)
bits.over(16)(words, np.zeros(64, np.bool_), square)

driver = vyre_driver.Driver()
resident, other = driver.buffer(x), driver.empty(64, np.float32)
saxpy(resident, other, 2.0)
saxpy.on(driver)(x, y, 2.0)
bound = saxpy.bind(resident, other, 2.0)
bound.run()
with driver.batch() as batch:
    batch.add(bound)
driver.compile(saxpy)
program = block_sum.program(BLOCK=64)
shown = (saxpy.__name__, program, default_driver().device.name, pull(1.0, 2.0, 0.5))
text: Kernel[...] = kernel.from_source("def twice(i: Index, x: InOut[f32]): x[i] *= 2.0")
text(x)

interpreted, plain = saxpy.interpret(x, y, 2.0), saxpy.python(x, y, a=2.0)
known = (saxpy.spirv().code, saxpy.explain().checks, saxpy.compiled_for(driver).trace)
known_of_block = (
    block_sum.program(BLOCK=64),
    block_sum.explain(BLOCK=64).workgroup_size,
    tuned.with_(BLOCK=128)(x),
    checked(x, y),
)
known_of_type = (scaled.program(T=f32), scaled.with_(T=i32).spirv().code)
wide.program()
median(x, y)
mixed(x, y)
blended = blend(x, 1.0, part=y)
blend(x, y, 0.5, out=y, where=x > 0)
blend.on(driver)(resident, other, 0.5, label="blend")
lengths, angles = polar(x, y)
polar(x, y, out=(y, None))
larger(x, 1.0)
larger.program(T=f32)
fused = fuse(lambda x, y: x * y + 1.0)(x, y)
norm: Reduction = reduction(map=lambda x: x * x, combine=lambda a, b: a + b, zero=0.0, finish=math.sqrt)
norm(x)
norm.on(driver)(resident)
largest(square, axis=0)
sums: Scan = running_sum.on(driver)
sums(square, axis=-1)
