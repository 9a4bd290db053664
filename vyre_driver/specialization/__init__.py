"""Specialization constants: typed values, and the words that a pipeline gets for them."""

from vyre_driver.process.imports import check_required

check_required()

from vyre_driver.specialization.resolve import Specialization, SpecializedConstant, specialize
from vyre_driver.specialization.values import SpecKind, SpecMap, SpecValue
from vyre_driver.upstream.keys import (
    SpecCacheKey,
    versioned_specialization_artifact_key,
    vsa_specialization_key,
)

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
