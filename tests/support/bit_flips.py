"""Walk a shipped module with every word's bits flipped, one at a time: ``python bit_flips.py NAME BIT...``.

The process may take 2 GiB of address space. Prints as JSON how many modules ended how.
"""

from __future__ import annotations

import array
import json
import resource
import sys
from collections import Counter

from module_walk import outcome

from vyre_driver.spirv.shipped import shipped_module

MOST_BYTES = 2 << 30


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    words = array.array("I", shipped_module(sys.argv[1]).code)
    found: Counter[str] = Counter()
    for at, word in enumerate(words):
        for bit in map(int, sys.argv[2:]):
            words[at] = word ^ 1 << bit
            found[outcome(words.tobytes())] += 1
        words[at] = word
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
