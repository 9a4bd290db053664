"""``cpu-ref``: the interpreter of programs that says what is right; no device, and never chosen unless it is named.

Source: spec items 1.5 to 1.7.
"""

from vyre_driver.backends.reference.dispatch import DEFAULT_STEP_BUDGET, Interpretation, interpret, run

BACKEND_ID = "cpu-ref"

__all__ = ["BACKEND_ID", "DEFAULT_STEP_BUDGET", "Interpretation", "interpret", "run"]
