"""The modules of matrix products, and of the sums of what the parts of a product's k come to.

A convolution is a product too: the rows of a are windows of images, which nobody stores; each element is read where it lies. A
row is one place of the kernel on an image, an element of it one channel of one tap: in the order of the weights' k, channels
first, then across, then down. What depends on the row is worked out before the steps, and the tap is counted up from step to
step, as digits with carries are: a step divides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.errors import InvalidInput
from vyre_driver.matrices.epilogue import Epilogue
from vyre_driver.matrices.function import ROW_MAJOR, Function, NumberBuffer, float_of, push_constants
from vyre_driver.matrices.operand import Edges, Operand, Place, UnalignedOperand
from vyre_driver.matrices.tiles import GLSL450, PUSHED, MatrixProduct, ScalarProduct
from vyre_driver.spirv.builder import ModuleBuilder
from vyre_driver.spirv.opcodes import BuiltIn, Capability, Decoration, Ins, Op

if TYPE_CHECKING:
    from vyre_driver.matrices.description import Part, ProductDescription, Result
    from vyre_driver.matrices.function import Index, Word
    from vyre_driver.matrices.tiles import Tile

    Digits = tuple[Index, Index, Index]

IMAGE = (
    *("height", "width", "out_height", "out_width", "kernel_width", "stride_y", "stride_x"),
    *("padding_y", "padding_x", "dilation_y", "dilation_x"),
)
"""The push constants of a convolution, after those of a product: 92 bytes in all. Channels are ``a_stride``.

Coordinates are taken modulo 2**32, so that those above and left of an image are past its ends too: height and width with
padding, and strides, are below 2**31.
"""
_NOWHERE = 1 << 31


class _Row(NamedTuple):
    """Where the first tap of a row's window is: in the image, modulo 2**32, and in a."""

    y: Index
    x: Index
    element: Index


class Location(NamedTuple):
    """Where an element is in a, which holds where the condition does; elsewhere it is 0."""

    is_inside: int
    place: Index


class Windows:
    """The elements that an invocation reads: of some rows, and of all of them the same ones in each step."""

    def __init__(self, function: Function, pushed: dict[str, Word], part: Part) -> None:
        """Prepare for steps of this part."""
        self._f = function
        self._pushed = pushed
        self._step = part.width
        self._digits = [function.variable(function.u32) for _ in range(3)]

    def start(self, rows: list[Index], end: Index, element: Index) -> None:
        """Work out where the windows of rows are, those before ``end``, and begin at an element of them."""
        f, pushed = self._f, self._pushed
        per_image = pushed["out_height"] * pushed["out_width"]
        self._rows = []
        for row in rows:
            image, pixel = row // per_image, row % per_image
            y = pixel // pushed["out_width"] * pushed["stride_y"] - pushed["padding_y"]
            x = pixel % pushed["out_width"] * pushed["stride_x"] - pushed["padding_x"]
            first = ((image * pushed["height"] + y) * pushed["width"] + x) * pushed["a_stride"]
            known = f.select(f.u32, f.is_below(row, end), f.id_of(y), f.const(_NOWHERE))
            self._rows.append(_Row(f.as_word(known), x, first))
        self._by = self._digits_of(self._step)
        self._keep(self._digits_of(element))

    def step(self, element: Index, stop: Index | None, count: int) -> list[list[Location]]:
        """Return where ``count`` elements of each row are, from this one on, and go on to the next step.

        It is called once a step, in order. Elements from ``stop`` on are not inside.
        """
        f = self._f
        digits: Digits = tuple(f.as_word(f.load(f.u32, one)) for one in self._digits)  # type: ignore[assignment] # three
        self._keep(self._sum(digits, self._by))
        found: list[list[Location]] = [[] for _ in self._rows]
        for number in range(count):
            digits = self._sum(digits, (1, 0, 0)) if number else digits
            is_part = None if stop is None else f.is_below(element + number, stop)
            for of_row, one in zip(found, self._locations(digits), strict=True):
                of_row.append(one if is_part is None else one._replace(is_inside=f.both(is_part, one.is_inside)))
        return found

    def _locations(self, digits: Digits) -> list[Location]:
        """Return where a channel of a tap is in each row's window."""
        f, pushed, (channel, across, down) = self._f, self._pushed, digits
        below, beside = down * pushed["dilation_y"], across * pushed["dilation_x"]
        apart = (below * pushed["width"] + beside) * pushed["a_stride"] + channel
        return [
            Location(
                f.both(f.is_below(row.y + below, pushed["height"]), f.is_below(row.x + beside, pushed["width"])),
                row.element + apart,
            )
            for row in self._rows
        ]

    def _digits_of(self, element: Index) -> Digits:
        """Return the channel of an element, and its tap across and down."""
        channels, width = self._pushed["a_stride"], self._pushed["kernel_width"]
        return element % channels, element // channels % width, element // channels // width

    def _sum(self, digits: Digits, by: Digits) -> Digits:
        channel, carry = self._carried(digits[0] + by[0], self._pushed["a_stride"])
        across, carry = self._carried(digits[1] + by[1] + carry, self._pushed["kernel_width"])
        return channel, across, digits[2] + by[2] + carry

    def _carried(self, digit: Index, base: Index) -> tuple[Index, Index]:
        """Return a digit below its base, and what is carried, 0 or 1."""
        f = self._f
        is_below = f.is_below(digit, base)
        rest = f.select(f.u32, is_below, f.id_of(digit), f.id_of(digit - base))
        return f.as_word(rest), f.as_word(f.select(f.u32, is_below, f.const(0), f.const(1)))

    def _keep(self, digits: Digits) -> None:
        for variable, digit in zip(self._digits, digits, strict=True):
            self._f.store(variable, self._f.id_of(digit))


class ImageOperand(Operand):
    """Windows on their way to fragments: vectors of channels, which lie in one pixel."""

    def __init__(self, function: Function, part: Part, invocations: int, pushed: dict[str, Word]) -> None:
        """Declare shared memory, as an operand."""
        super().__init__(function, "a", 0, part, invocations, ROW_MAJOR)
        self._windows = Windows(function, pushed, part)

    def start(self, lane: Index, at: Place) -> None:
        """Work out where the windows of an invocation's shares are."""
        self._windows.start([at.line + line for line, _ in self._shares(lane)], at.lines, self._first(lane, at))

    def fetch(self, lane: Index, at: Place, edges: Edges) -> list[int]:
        """Return the vectors that an invocation carries of a part; of rows past the last one they are zeros too."""
        count = self.part.element.in_vector // self.at_once
        rows = self._windows.step(self._first(lane, at), at.elements if edges is Edges.ALL else None, count)
        return [self._packed([self._read(one.is_inside, one.place // self.at_once) for one in row]) for row in rows]

    def _first(self, lane: Index, at: Place) -> Index:
        """Return the first element that an invocation reads of each of its rows."""
        return at.element + self._shares(lane)[0][1] * self.part.element.in_vector


class UnalignedImageOperand(ImageOperand, UnalignedOperand):
    """Windows whose channels are no whole vectors: they are read element by element."""


class MatrixConvolution(MatrixProduct):
    """A convolution on cooperative matrices."""

    names = (*PUSHED, *IMAGE)

    def _operand_a(self) -> Operand:
        kind = ImageOperand if self.d.is_aligned else UnalignedImageOperand
        return kind(self.f, self.d.a, self.d.tiling.invocations, self.pushed)


class ScalarConvolution(ScalarProduct):
    """A convolution on ordinary units."""

    names = (*PUSHED, *IMAGE)

    def __init__(self, description: ProductDescription) -> None:
        """Declare what a product has."""
        super().__init__(description)
        self._windows = Windows(self.f, self.pushed, description.a)

    def _start(self, tile: Tile) -> None:
        at, _ = self.places(tile, tile.start)
        rows = [at.line + line for line, _ in self._shares(self.d.a)]
        self._windows.start(rows, at.lines, self._first(at))

    def _fetch_a(self, at: Place) -> list[int]:
        rows = self._windows.step(self._first(at), at.elements, 1)
        return [self._read(self._a, one.is_inside, one.place) for (one,) in rows]

    def _first(self, at: Place) -> Index:
        return at.element + self._shares(self.d.a)[0][1]


def product_module(description: ProductDescription) -> bytes:
    """Return the SPIR-V of a product.

    Its buffers are ``a``, ``b``, ``c``, and ``bias`` and ``residual`` where the result has them, its push constants
    :data:`~vyre_driver.matrices.tiles.PUSHED`, of a convolution :data:`IMAGE` after them. A
    workgroup makes a tile of the result, those of one matrix along x and y of the grid, row by row of the grid, and along z the
    parts of k of each matrix of the batch.

    Raises
    ------
    InvalidInput
        If there is no such kernel: ``description.problem()``.
    """
    problem = description.problem()
    if problem is not None:
        raise InvalidInput(
            f"there is no such product: {problem}", fix="choose a tile, a split and a fragment that divide each other"
        )
    is_scalar = description.tiling.is_scalar
    if description.is_convolution:
        return (ScalarConvolution if is_scalar else MatrixConvolution)(description).build()
    return (ScalarProduct if is_scalar else MatrixProduct)(description).build()


INVOCATIONS = 256
PARTS_PUSHED = ("n", "size", "count", "parts", "scale")
"""The push constants: columns of a matrix, its numbers, those of all of the batch, parts; the bits of the factor of sums."""


def parts_module(result: Result) -> bytes:
    """Return the SPIR-V of a kernel that adds parts up: buffers ``partial``, ``c``, and what the result has besides.

    ``partial`` has the parts of each matrix of the batch one after the other. Each invocation of a grid of x and y makes one
    number of the result.
    """
    module = ModuleBuilder()
    module.capability(Capability.Shader)
    module.memory_model(0, GLSL450)
    f = Function(module)
    pushed = push_constants(f, PARTS_PUSHED)
    partial = NumberBuffer(f, "partial", 0, result.accumulator, Decoration.NON_WRITABLE)
    epilogue = Epilogue(f, result, 1, float_of(f, pushed["scale"]))
    number = f.f32 if result.accumulator.is_float else f.i32
    total = f.variable(number)
    x, y, _ = f.built_in_vector(BuiltIn.GLOBAL_INVOCATION_ID)
    width, _, _ = f.built_in_vector(BuiltIn.NUM_WORKGROUPS)
    place = y * (width * INVOCATIONS) + x
    with f.when(f.is_below(place, pushed["count"])):
        matrix, within = place // pushed["size"], place % pushed["size"]
        f.store(total, module.constant(Op.ConstantNull, number))
        with f.repeat(0, pushed["parts"], 1) as part:
            one = partial.read((matrix * pushed["parts"] + part) * pushed["size"] + within)
            add = Ins.FAdd if result.accumulator.is_float else Ins.IAdd
            f.store(total, f.result(add, number, f.load(number, total), one))
        epilogue.write(place, within % pushed["n"], f.load(number, total))
    f.finish((INVOCATIONS, 1, 1))
    return module.build()
