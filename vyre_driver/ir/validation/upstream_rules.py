"""The codes of upstream 0.7's validator: the rules of ours that refuse the same, and what to do.

Upstream names every finding. Where a rule of ours has a code of upstream's it is the same one; the others have codes that begin
with R here, and several of upstream's may stand for one of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.ir.validation.rules import MAX_PROBLEMS, Findings, Problem

if TYPE_CHECKING:
    from collections.abc import Callable


class UpstreamRule(NamedTuple):
    """A rule of upstream's: the codes of those of ours that refuse the same, and what to do."""

    ours: tuple[str, ...]
    fix: str


_CAST = "cast the operands to a type that it takes"
_DECLARE = "declare it, or name another"
_U32 = "cast it to u32"

UPSTREAM_RULES: dict[str, UpstreamRule] = {
    "V008": UpstreamRule(("V008",), "use another name"),
    "V009": UpstreamRule(("V009", "R034"), "declare it read-write"),
    "V010": UpstreamRule(("V010",), "move the barrier to where all invocations come"),
    "V011": UpstreamRule(("V011",), "declare a variable of your own with let"),
    "V012": UpstreamRule(("V012",), "cast by way of u32, or load elements of the type"),
    "V013": UpstreamRule(("V013",), "declare it with_bytes_extraction(True), or use a buffer of u32"),
    "V014": UpstreamRule(("V014",), "use a buffer of u32"),
    "V016": UpstreamRule(("V016",), "put the operation's body in place of the call"),
    "V018": UpstreamRule(("V018",), "nest them less"),
    "V019": UpstreamRule(("V019",), "split the program"),
    "V020": UpstreamRule(("V020",), "give as many arguments as it takes"),
    "V021": UpstreamRule(("V021",), "name a data type"),
    "V022": UpstreamRule(("V022",), "mark one output, and cast an argument to what the operation takes"),
    "V023": UpstreamRule(("V023",), "load or store bytes as they are"),
    "V025": UpstreamRule(("V025", "R034"), "use a read-write buffer"),
    "V027": UpstreamRule(("V027",), _U32),
    "V028": UpstreamRule(("V028",), "cast it to f32"),
    "V029": UpstreamRule(("V029",), "cast one of them"),
    "V030": UpstreamRule(("V030",), "name the extension's kind"),
    "V031": UpstreamRule(("V031",), "name the extension's kind"),
    "V032": UpstreamRule(("V032",), "assign to it, or use another name"),
    "V033": UpstreamRule(("V033",), "put parts of it into variables"),
    "V034": UpstreamRule(("V034",), "choose a device that has it"),
    "V035": UpstreamRule(("V035",), "mask the value, if that is meant"),
    "V036": UpstreamRule(("V036",), "store inside the buffer"),
    "V041": UpstreamRule(("V041",), "choose a device that has them, and give its profile"),
    "V042": UpstreamRule(("V042",), "use RELAXED, ACQUIRE, RELEASE, ACQ_REL or SEQ_CST"),
    "V043": UpstreamRule(("V043",), "use ACQUIRE, RELEASE, ACQ_REL, SEQ_CST or GRID_SYNC"),
    "V044": UpstreamRule(("V044",), "divide by something else"),
    "V045": UpstreamRule(("V045",), "cast the value"),
    "V046": UpstreamRule(("V046",), "choose a device that has them, and buffers that other devices see"),
    "V047": UpstreamRule(("V047",), "take the bits of it, or another operator"),
    "V051": UpstreamRule(("V051",), "pass it to a call, or load an element"),
    "V052": UpstreamRule(("V052",), _DECLARE),
    "V053": UpstreamRule(("V053",), "pass a BufferRef"),
    "V054": UpstreamRule(("V054",), "pass a buffer of such elements"),
    "V055": UpstreamRule(("V010",), "put a barrier at the end of the loop, or let all invocations return together"),
    "V057": UpstreamRule(("R024",), _U32),
    "V058": UpstreamRule(("R024",), _U32),
    "V059": UpstreamRule(("R024",), "give an expected value"),
    "V060": UpstreamRule(("R024",), "leave the expected value out, or use COMPARE_EXCHANGE"),
    "V061": UpstreamRule(("R010",), _DECLARE),
    "V063": UpstreamRule(("R011",), "declare it read-write"),
    "V064": UpstreamRule(("R010",), _DECLARE),
    "V065": UpstreamRule(("R010",), _DECLARE),
    "V066": UpstreamRule(("R009",), "declare it with let before"),
    "V067": UpstreamRule(("R010",), _DECLARE),
    "V068": UpstreamRule(("R017",), "use axis 0, 1 or 2"),
    "V070": UpstreamRule(("R022",), "name it as often as its linear type says"),
    "V083": UpstreamRule(("R023",), "change the count"),
    "V084": UpstreamRule(("R015",), "use an operator of this package, or pairs of u32"),
    "V085": UpstreamRule(("R015",), _CAST),
    "V086": UpstreamRule(("R015",), _CAST),
    "V087": UpstreamRule(("R015",), _CAST),
    "V088": UpstreamRule(("R015",), _CAST),
    "V089": UpstreamRule(("R015",), _CAST),
    "V090": UpstreamRule(("R015",), _CAST),
    "V091": UpstreamRule(("R015",), _CAST),
    "V092": UpstreamRule(("R015",), _CAST),
    "V093": UpstreamRule(("R015",), _CAST),
    "V094": UpstreamRule(("R015",), _CAST),
    "V095": UpstreamRule(("R015",), _CAST),
    "V096": UpstreamRule(("R015",), _CAST),
    "V097": UpstreamRule(("R015",), "use the subgroup expressions"),
    "V098": UpstreamRule(("R015",), "write i32(0) - value, which wraps at the least i32"),
    "V099": UpstreamRule(("R015",), _CAST),
    "V100": UpstreamRule(("R015",), _CAST),
    "V101": UpstreamRule(("R015",), _CAST),
    "V102": UpstreamRule(("R015",), _CAST),
    "V103": UpstreamRule(("R015",), _CAST),
    "V104": UpstreamRule(("R015",), "use an operator that upstream knows"),
    "V105": UpstreamRule(("R001",), "use Program.wrapped"),
    "V106": UpstreamRule(("R002",), "use 1 or more"),
    "V107": UpstreamRule(("R003",), "give each its own name"),
    "V108": UpstreamRule(("R004",), "give each its own binding number"),
    "V109": UpstreamRule(("R005",), "give it a count"),
    "V110": UpstreamRule(("R006",), "use elements of a fixed type and a count"),
    "V112": UpstreamRule(("R016",), "remove them, or return under an if"),
    "V115": UpstreamRule(("R021",), "run the program twice instead"),
    "V116": UpstreamRule(("R020",), "put a barrier between, or use atomics only"),
    "V117": UpstreamRule(("R019",), "name the copy"),
    "V119": UpstreamRule(("R009",), "store to it instead"),
    "V120": UpstreamRule(("R009",), "declare it with let before"),
    "V121": UpstreamRule(("V045",), "cast the value to the type of the elements"),
    "V122": UpstreamRule(("R012", "V036"), _U32),
    "V123": UpstreamRule(("R013",), "compare it"),
    "V124": UpstreamRule(("R014",), _U32),
    "V125": UpstreamRule(("R014",), _U32),
    "V126": UpstreamRule(("R018",), "align the counts to 4 bytes"),
    "V127": UpstreamRule(("R010",), _DECLARE),
    "V128": UpstreamRule(("R019",), "name the copy"),
    "V130": UpstreamRule((), "give it a count, or the output_byte_range (0, 0) if it is empty"),
}


_STOPPING = frozenset({"V018", "V019"})  # ours end the examination of a program


class UpstreamFindings:
    """The findings of upstream in a program: at most MAX_PROBLEMS problems and warnings, in its order; ``total`` counts all."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.total = 0

    def add(self, code: str, path: str | Callable[[], str], message: str) -> None:
        """Note a problem; ``path`` may be a function, asked only when the problem is kept."""
        self.total += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(_problem(code, path, message))

    def warn(self, code: str, path: str | Callable[[], str], message: str) -> None:
        """Note a warning; ``path`` as for :meth:`add`."""
        if len(self.warnings) < MAX_PROBLEMS:
            self.warnings.append(_problem(code, path, message))


def _problem(code: str, path: str | Callable[[], str], message: str) -> Problem:
    return Problem(code, path if isinstance(path, str) else path(), message, UPSTREAM_RULES[code].fix)


def compared(findings: UpstreamFindings, ours: Findings) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Return upstream's problems and warnings, each saying where this driver decides otherwise.

    A problem whose rule refuses nothing in this program here says so, unless our examination ended early. A problem of ours
    that upstream does not have becomes a warning. Rules are compared, not places.
    """
    refused = {problem.rule for problem in ours.problems}
    covered = {code for problem in findings.problems for code in UPSTREAM_RULES[problem.rule].ours}
    stricter = tuple(
        problem._replace(message=f"{problem.message}; upstream takes it")
        for problem in ours.problems
        if problem.rule not in covered
    )
    theirs = tuple(findings.problems)
    if ours.total <= MAX_PROBLEMS and _STOPPING.isdisjoint(refused):
        theirs = tuple(
            problem
            if refused.intersection(UPSTREAM_RULES[problem.rule].ours)
            else problem._replace(message=f"{problem.message}; this driver takes it")
            for problem in theirs
        )
    return theirs, (*findings.warnings, *stricter)
