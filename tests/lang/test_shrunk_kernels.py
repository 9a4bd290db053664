"""Texts of kernels are made smaller as long as they are wrong."""

from __future__ import annotations

from shrunk_kernels import shrunk, smaller

TEXT = """
def helper(p):
    return p + 1

def kernel(a, o):
    x = 1
    if a > 2:
        for k in range(3):
            x += k
            o[a] = helper(x)
    else:
        x = 2
    o[a] = x
"""


def test_what_does_not_matter_is_left_out_and_what_is_around_it_is_taken_off() -> None:
    assert shrunk(TEXT, lambda text: "x += k" in text) == "def kernel(a, o):\n    x += k"
    assert shrunk(TEXT, lambda text: "def helper" in text) == "def helper(p):\n    pass"


def test_each_text_has_one_statement_less() -> None:
    texts = list(smaller("def kernel(a):\n    x = a\n    y = x\n"))
    assert texts == ["", "def kernel(a):\n    y = x", "def kernel(a):\n    x = a"]


def test_the_attempts_are_limited() -> None:
    tried: list[str] = []
    assert shrunk(TEXT, lambda text: bool(tried.append(text)), attempts=5) == TEXT
    assert len(tried) == 5
