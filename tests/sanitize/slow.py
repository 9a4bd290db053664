"""A pytest plugin for runs under memcheck: nothing is called slow or hanging because of valgrind (``-p slow``)."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("memcheck", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("memcheck")
