"""Batchwright: sizes, runs and explains every batch of policy training."""

from batchwright.api import load, plan, resume, train
from batchwright.core.errors import UserError

__version__ = "0.1.0"
__all__ = ["UserError", "__version__", "load", "plan", "resume", "train"]
