"""Every form by the kind of construct that it is another way to lower, which are the kinds of questions.

Those called "hidden" take an exclusive or with a zero that no compiler can know. They tell whether a compiler is wrong because
of what it knows, and at which place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forms.bit_forms import BITS
from forms.memory_forms import ATOMICS, FLOATS
from forms.order_forms import NUMBERS, WORDS
from forms.wide_forms import CHOICES, DIFFERENCES

if TYPE_CHECKING:
    from forms.formed import Form

FORMS: dict[str, tuple[Form, ...]] = {
    "bits": BITS,
    "differences": DIFFERENCES,
    "atomics": ATOMICS,
    "words": WORDS,
    "choices": CHOICES,
    "floats": FLOATS,
    "numbers": NUMBERS,
}
"""By kind of question; in each, the cheapest first and the hidden ones last."""
