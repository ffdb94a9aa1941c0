"""What the package offers in Python; the command line is a thin layer over it.

Other rooms import these names from here. JAX, NumPy and environments are imported inside of functions: planning starts
at once.
"""

from batchwright.api.diagnoses import diagnose, try_remedies
from batchwright.api.jax_setup import keep_programs, set_up_jax
from batchwright.api.plans import forecast, plan, plan_resolved, plan_to_train
from batchwright.api.policies import export, load
from batchwright.api.processes import train_as_follower
from batchwright.api.reports import report
from batchwright.api.resuming import continue_dataset_run, extend, resume
from batchwright.api.rewards import learn_reward, load_reward, prepare_online_reward, prepare_reward, resume_reward
from batchwright.api.seeds import resume_seeds
from batchwright.api.stored_runs import is_reward_run, names_strange_code
from batchwright.api.trainings import prepare, train, train_prepared
from batchwright.api.tunings import resume_tuning, tune

__all__ = [
    "continue_dataset_run",
    "diagnose",
    "export",
    "extend",
    "forecast",
    "is_reward_run",
    "keep_programs",
    "learn_reward",
    "load",
    "load_reward",
    "names_strange_code",
    "plan",
    "plan_resolved",
    "plan_to_train",
    "prepare",
    "prepare_online_reward",
    "prepare_reward",
    "report",
    "resume",
    "resume_reward",
    "resume_seeds",
    "resume_tuning",
    "set_up_jax",
    "train",
    "train_as_follower",
    "train_prepared",
    "try_remedies",
    "tune",
]
