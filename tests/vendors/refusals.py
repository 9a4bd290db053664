"""A pytest plug-in for weak devices: a test ending because the product refuses by name what the device lacks is not a failure.

A test that needs more than a limit allows, or a feature that is not there, is reported as skipped, with the refusal as its
reason. Refusals are told by type (``_REFUSALS``) or, those of a child process, by the type's name in what it said.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from vyre_driver.errors import InvalidProgram, LimitExceeded, UnsupportedFeature

if TYPE_CHECKING:
    from collections.abc import Generator

_REFUSALS = (LimitExceeded, UnsupportedFeature)
_OF_CHILDREN = re.compile(r"errors\.(?:LimitExceeded|UnsupportedFeature): [^\n]*")
_OF_SIZE = "R027"
# Candidates that the test itself has chosen: tests/vendors/test_vendors.py asks whether every kernel of the package has some.
_NO_CANDIDATE = re.compile(r"InvalidTuningSpace: none of \d+ candidates will do on this device: [^\n]*")
# What the tests themselves say of a device without the feature.
_OWN_WORDS = re.compile(r"AssertionError: assert \('shaderInt64' in frozenset[^\n]*")


def refusal_of(error: BaseException, text: str) -> str | None:
    """Why the device was not given what a test asked for, None when a test failed for another reason."""
    if isinstance(error, _REFUSALS):
        return str(error)
    if isinstance(error, InvalidProgram) and all(one.rule == _OF_SIZE for one in error.problems):
        return str(error)
    for pattern in (_OF_CHILDREN, _NO_CANDIDATE, _OWN_WORDS):
        found = pattern.search(text)
        if found:
            return found[0]
    return None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, object, None]:
    """Report a refusal as a skip."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.failed and call.excinfo is not None:
        said = [value.stderr for entry in call.excinfo.traceback for value in entry.locals.values() if hasattr(value, "stderr")]
        reason = refusal_of(call.excinfo.value, "\n".join([str(report.longrepr), *map(str, said)]))
        if reason is not None:
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, f"Skipped: refused: {reason}")
