"""Hypothesis draws the same examples every time, so that CI is repeatable; HYPOTHESIS_PROFILE=search looks further."""

import os

from hypothesis import HealthCheck, settings

from batchwright.api import set_up_jax

# Before any test imports JAX: the tests run as users do, with compiled programs kept between runs.
set_up_jax()

settings.register_profile("ci", derandomize=True, deadline=None, database=None, max_examples=150)
settings.register_profile(
    "search",
    deadline=None,
    max_examples=3000,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
