"""How code is found in documents, and when what it prints is what they show."""

from __future__ import annotations

import documents
import pytest

PAGE = """# A page

```python
print(1)
```

```text
1
```

<!-- not run: needs
two GPUs -->
```python
many()
```

    its output

<!-- first:
x = 2
-->
```python
print(x)
```

    2

```console
$ vyre-driver devices
$ echo done
```

```text
...
done
```

Then

    vyre-driver spirv saxpy     # a comment
    vyre-driver devices

and

    anything else

```c
int x;
```
"""


def test_blocks_have_their_output_their_reason_and_what_is_hidden() -> None:
    found = [(one.language, one.code, one.shown, one.why_not, one.is_run) for one in documents.blocks(PAGE)]
    assert found == [
        ("python", "print(1)\n", "1\n", "", True),
        ("python", "many()\n", "its output\n", "needs two GPUs", False),
        ("python", "x = 2\nprint(x)\n", "2\n", "", True),
        ("console", "$ vyre-driver devices\n$ echo done\n", "...\ndone\n", "", True),
        ("console", "$ vyre-driver spirv saxpy\n$ vyre-driver devices\n", "", "", True),
        ("c", "int x;\n", "", "", False),
    ]


@pytest.mark.parametrize(
    ("shown", "printed", "is_same"),
    [
        ("a b\n", "a  b\n", True),
        ("a\n...\nb\n", "a\nb\n", True),
        ("took ... ms", "took 1.5 ms\n", True),
        ("a.b", "axb", False),
        ("a", "a\nb", False),
        ("", "a", False),
    ],
)
def test_three_dots_stand_for_any_text(shown: str, printed: str, is_same: bool) -> None:  # noqa: FBT001 -- a case
    assert documents.is_same(shown, printed) is is_same
