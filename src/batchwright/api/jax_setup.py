"""Variables of the process that JAX reads when it is imported."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def set_up_jax() -> None:
    """Environment variables that JAX reads when it starts, where no plan sets its threads; the user's own values stay.

    XLA's threads cost more than they bring on the small programs of policy training (docs/log.md).
    """
    keep_programs()
    os.environ.setdefault("NPROC", "1")


def keep_programs() -> None:
    """Compiled programs are kept, so that the second start of one is quick; what the user set stays.

    JAX reads the variables when it is imported. Where the caller has imported it already, its configuration is changed.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "batchwright" / "programs"
    wanted: dict[str, str | float | int] = {
        "jax_compilation_cache_dir": str(cache),
        "jax_persistent_cache_min_compile_time_secs": 0.3,
        "jax_compilation_cache_max_size": 512 * 1024**2,
    }
    unset = {name: value for name, value in wanted.items() if name.upper() not in os.environ}
    os.environ.update({name.upper(): str(value) for name, value in unset.items()})
    jax = sys.modules.get("jax")
    if jax is not None and jax.config.jax_compilation_cache_dir is None:
        for name, value in unset.items():
            jax.config.update(name, value)
