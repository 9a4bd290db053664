"""Real SPIR-V modules with something changed: a word, an instruction, a stretch of their function bodies."""

from __future__ import annotations

import array
import random
import shutil
import subprocess

import pytest

from vyre_driver.errors import InvalidModule
from vyre_driver.spirv import _shape
from vyre_driver.spirv.declarations import read_declarations

# Shipped modules, as a parameter: one for each run of the tests, all for `make check-all`.
SHIPPED = ["saxpy", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("byte_histogram", "mandelbrot"))]
LARGEST_WORDS = 1 << 14
HEADER, FUNCTION = 5, 54
NUMBERS = [0, 1, 2, 3, 5, 12, 17, 25, 33, 34, 35, 38, 54, 56, 59, 64, 1024, 0xFFFF, 1 << 16, 0x3FFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF]


def starts(words: array.array[int]) -> list[int]:
    """The word at which each instruction begins, and the end."""
    found, at = [], HEADER
    while at < len(words) and words[at] >> 16:
        found.append(at)
        at += words[at] >> 16
    return [*found, min(at, len(words))]


def an_instruction(rng: random.Random, words: array.array[int]) -> array.array[int]:
    places = starts(words)
    at = rng.randrange(max(1, len(places) - 1))
    return words[places[at] : places[at + 1]] if len(places) > 1 else array.array("I")


def mutated(rng: random.Random, corpus: list[bytes], real: int) -> bytes:
    """A module, half the time one of the ``real`` first, with words changed, instructions dropped, doubled or of another."""
    words = array.array("I", corpus[rng.randrange(real if rng.random() < 0.5 else len(corpus))])
    for _ in range(rng.randint(1, 5)):
        places = starts(words)
        at = rng.randrange(len(words))
        place = rng.choice(places)
        match rng.randrange(9):
            case 0:
                words[at] ^= 1 << rng.randrange(32)
            case 1:
                words[at] = rng.choice(NUMBERS)
            case 2:
                words[at] = words[rng.randrange(len(words))]
            case 3:
                words[place:place] = an_instruction(rng, words)
            case 4:
                words[place:place] = an_instruction(rng, array.array("I", rng.choice(corpus)))
            case 5 if place < len(words):
                del words[place : place + max(1, words[place] >> 16)]
            case 6:
                words[place:place] = an_instruction(rng, words) * rng.choice([2, 30, 300])
            case 7 if place + 1 < len(words):
                words[place + 1] = (
                    rng.choice([words[3] - 1, rng.randrange(max(1, words[3])), rng.choice(NUMBERS)]) & 0xFFFF_FFFF
                )
            case _:
                words[at] = (words[at] + rng.choice([1, -1, 1 << 16, -(1 << 16)])) & 0xFFFF_FFFF
    return words[:LARGEST_WORDS].tobytes()


def mutated_body(rng: random.Random, code: bytes) -> bytes:
    """A module with one or two words of its functions changed, or instructions of them dropped."""
    words = array.array("I", code)
    for _ in range(rng.randint(1, 2)):
        places = starts(words)
        functions = [place for place in places[:-1] if words[place] & 0xFFFF == FUNCTION]
        if not functions:
            break
        at = rng.randrange(functions[0], places[-1])
        match rng.randrange(4):
            case 0:
                words[at] ^= 1 << rng.randrange(8)
            case 1:
                words[at] = rng.randrange(max(1, words[3]))
            case 2:
                words[at] = words[rng.randrange(functions[0], places[-1])]
            case _:
                place = rng.choice([one for one in places[:-1] if one >= functions[0]])
                del words[place : place + (words[place] >> 16)]
    return words[:LARGEST_WORDS].tobytes()


def complaint(code: bytes) -> str:
    """What spirv-val says, asked as Driver.compile asks it; nothing when it accepts the module."""
    tool = shutil.which("spirv-val")
    assert tool is not None
    command = [tool, "--target-env", "vulkan1.3", "--scalar-block-layout", "--allow-localsizeid", "-"]
    done = subprocess.run(command, input=code, capture_output=True, check=False)
    return "" if done.returncode == 0 else done.stderr.decode("utf-8", "replace") or "it died"


def is_read(code: bytes) -> bool:
    """Whether the check would be asked about a module: its framing and declarations are whole."""
    try:
        read_declarations(code, "given")
    except InvalidModule:
        return False
    return True


def faulty_mutants(real: list[bytes], *, count: int, seed: int) -> list[bytes]:
    """Those of ``count`` mutated modules, every second in its functions only, that the structural check refuses first."""
    rng = random.Random(seed)  # noqa: S311 -- no secret
    made = [mutated_body(rng, rng.choice(real)) if at % 2 else mutated(rng, real, len(real)) for at in range(count)]
    return [code for code in made if is_read(code) and _shape.check(code)[0]]
