"""Batchwright: sizes, runs and explains every batch of policy training."""

from typing import TYPE_CHECKING, Any

from batchwright.api import export, learn_reward, load, load_reward, plan, report, resume, train, tune
from batchwright.core.errors import UserError

if TYPE_CHECKING:
    from batchwright.nets.networks import Inputs, Network
    from batchwright.runs.callback import Callback, RunView
    from batchwright.store.trajectory_buffer import TrajectoryBuffer

__version__ = "0.1.0"
__all__ = [
    "Callback",
    "Inputs",
    "Network",
    "RunView",
    "TrajectoryBuffer",
    "UserError",
    "__version__",
    "export",
    "learn_reward",
    "load",
    "load_reward",
    "plan",
    "report",
    "resume",
    "train",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Names that need JAX or NumPy are imported when they are asked for: planning starts at once."""
    if name == "TrajectoryBuffer":
        from batchwright.store.trajectory_buffer import TrajectoryBuffer

        return TrajectoryBuffer
    if name in ("Inputs", "Network"):
        from batchwright.nets import networks

        return getattr(networks, name)
    if name in ("Callback", "RunView"):
        from batchwright.runs import callback

        return getattr(callback, name)
    raise AttributeError(f"module 'batchwright' has no attribute {name!r}")
