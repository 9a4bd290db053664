"""Which output of an artifact's node replaces which retained value, as its dependencies tell.

A dependency of the kind "retained" goes to the node that makes the successor, whose number is its value. It comes from the
prior value, or from the node that makes that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.artifacts.parts import Lifetime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.artifacts.documents import Document
    from vyre_driver.artifacts.neutral import ArtifactNode, Resource

_SUCCESSORS = frozenset({Lifetime.RETAINED, Lifetime.OUTPUT})


def with_priors(
    document: Document,
    dependencies: Sequence[dict[str, Any]],
    nodes: Sequence[ArtifactNode],
    resources: Sequence[Resource],
) -> tuple[ArtifactNode, ...]:
    """Return the nodes with the values that their outputs replace, from dependencies whose form is checked.

    Raises
    ------
    InvalidContainer
        If a dependency contradicts the nodes, or does not tell the value that is replaced.
    """
    makers = {number: place for place, node in enumerate(nodes) for number in node.outputs}
    known = _Retained(makers, nodes, resources)
    priors: list[dict[int, int]] = [{} for _ in nodes]  # by the successor
    for at, dependency in enumerate(dependencies):
        if dependency["kind"] != "retained":
            continue
        number, place = dependency["value"], dependency["to"].get("node")
        if number is None or place is None or makers.get(number) != place or number in priors[place]:
            document.refuse(f"dependencies[{at}] does not go to the node that makes its value, or another does as well")
        fitting = known.fitting(dependency["from"], place, number)
        if len(fitting) != 1:
            document.refuse(f"dependencies[{at}] fits {len(fitting)} retained values that node {place} takes, not one")
        priors[place][number] = fitting[0]
    return tuple([node._replace(priors=tuple(pairs.items())) for node, pairs in zip(nodes, priors, strict=True)])


class _Retained:
    """The retained values that each node takes, by what a successor has to have of them; found once for each node."""

    def __init__(self, makers: dict[int, int], nodes: Sequence[ArtifactNode], resources: Sequence[Resource]) -> None:
        self._makers, self._nodes, self._resources = makers, nodes, resources
        self._taken: dict[int, dict[tuple[object, ...], list[int]]] = {}

    def fitting(self, source: dict[str, int], place: int, successor: int) -> list[int]:
        """Return the values from ``source`` that a node takes and that ``successor`` can replace."""
        if place not in self._taken:
            self._taken[place] = self._by_kind(place)
        after = self._resources[successor]
        kind = (after.element, after.element_count, after.access)
        return self._taken[place].get((*source.items(), *kind), []) if after.lifetime in _SUCCESSORS else []

    def _by_kind(self, place: int) -> dict[tuple[object, ...], list[int]]:
        kinds: dict[tuple[object, ...], list[int]] = {}
        for number in self._nodes[place].inputs:
            prior = self._resources[number]
            if prior.lifetime is Lifetime.RETAINED:
                source = ("node", self._makers[number]) if number in self._makers else ("value", number)
                kinds.setdefault((source, prior.element, prior.element_count, prior.access), []).append(number)
        return kinds
