"""Specialization constants: typed values, and the words that a pipeline gets for them."""

from vyre_driver.process.imports import check_required

check_required()

from vyre_driver.specialization.resolve import Specialization, SpecializedConstant, specialize
from vyre_driver.specialization.upstream import (
    SpecCacheKey,
    versioned_specialization_artifact_key,
    vsa_specialization_key,
)
from vyre_driver.specialization.values import SpecKind, SpecMap, SpecValue

__all__ = [
    "SpecCacheKey",
    "SpecKind",
    "SpecMap",
    "SpecValue",
    "Specialization",
    "SpecializedConstant",
    "specialize",
    "versioned_specialization_artifact_key",
    "vsa_specialization_key",
]
