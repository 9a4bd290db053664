"""``cpu-ref``: the interpreter that defines the right results of programs; it needs no device and is chosen by name only.

Source: spec items 1.5 to 1.7.
"""

from vyre_driver.backends.reference.dispatch import DEFAULT_STEP_BUDGET, Interpretation, interpret, run

BACKEND_ID = "cpu-ref"

__all__ = ["BACKEND_ID", "DEFAULT_STEP_BUDGET", "Interpretation", "interpret", "run"]
