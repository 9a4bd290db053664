"""The rules that a program's buffers are planned by: those of upstream's 0.4.1, which the driver runs by, or those of its 0.7.

Source: spec item 2.2, for both versions (docs/binding.md, "Rules of upstream 0.7").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.checks import U32_MAX
from vyre_driver.errors import InvalidInput, InvalidProgram

if TYPE_CHECKING:
    from vyre_driver.ir.buffers import BufferDecl

WHOLE, LENGTH_OVERFLOW, NO_LAYOUT = 0, 3, 5  # the last one is not a status of the C table: 0.4.1 looks at no layout


@dataclass(frozen=True, slots=True)
class PlanRules:
    """The choices in which upstream's versions plan differently.

    ``in_declaration_order`` numbers inputs and outputs as the program declares them, not by their binding numbers.
    ``live_out_is_output`` makes a buffer that is live-out an output, which takes no input. ``packed`` counts the bits of
    elements, so that two i4 share a byte, and checks the layouts of their types. ``allows_longer_residents`` lets the lengths
    that ``validate_input_byte_lengths`` is given pass the static ones.
    """

    version: str
    in_declaration_order: bool
    live_out_is_output: bool
    packed: bool
    allows_longer_residents: bool

    @classmethod
    def of(cls, version: str) -> PlanRules:
        """Return the rules of a version of upstream.

        Raises
        ------
        InvalidInput
            If the version is neither "0.4.1" nor "0.7".
        """
        rules = _RULES.get(version) if isinstance(version, str) else None
        if rules is None:
            raise InvalidInput(f"there are no rules {version!r} for binding plans", fix='use "0.4.1" or "0.7"', rules=version)
        return rules

    def extent(self, buffer: BufferDecl) -> tuple[int, bool, int]:
        """Return what a packed element of a buffer takes, whether that is in bits, and a status where it cannot be planned."""
        element = buffer.element
        try:
            element.validate_layout()
        except InvalidProgram:
            return 0, False, NO_LAYOUT
        bits, size = element.bit_width, element.size_bytes
        if bits is not None:
            return bits, True, WHOLE
        is_too_large = size is None and element.min_bytes > 0 and buffer.count > 0
        # An array's element has the bytes that its encoding holds: 0.7 plans one of more as if it had so many.
        return min(size or 0, U32_MAX), False, LENGTH_OVERFLOW if is_too_large else WHOLE


RULES_0_4_1 = PlanRules(
    "0.4.1", in_declaration_order=False, live_out_is_output=False, packed=False, allows_longer_residents=False
)
RULES_0_7 = PlanRules("0.7", in_declaration_order=True, live_out_is_output=True, packed=True, allows_longer_residents=True)
_RULES = {rules.version: rules for rules in (RULES_0_4_1, RULES_0_7)}
