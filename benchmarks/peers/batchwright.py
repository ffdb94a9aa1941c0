"""PPO training speed of Batchwright; `--feed` is the engine: envpool, gymnasium, jax."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

from batchwright.api import plan_to_train, set_up_jax
from peers.common import IterationClock, Settings, measure, parse_settings


def train(settings: Settings, clock: IterationClock) -> None:
    set_up_jax()
    from batchwright.on_policy.on_policy_factory import make_on_policy_learner

    # As `batchwright train` does: the form of Gymnasium that is fastest here is measured.
    _, made = plan_to_train(
        settings.env,
        "none",
        None,
        None,
        engine=settings.feed,
        num_envs=settings.num_envs,
        rollout_steps=settings.rollout_steps,
        minibatch_transitions=settings.minibatch,
        epochs=settings.epochs,
        normalize_obs=False,
        normalize_rewards=False,
        advantage_norm="minibatch",
        num_threads=settings.env_threads if settings.feed == "envpool" and settings.env_threads > 0 else None,
    )
    learner = make_on_policy_learner(made, settings.env)
    state = learner.start()
    while True:
        state, result = learner.iterate(state)
        learner.record(state, result, sum(result.seconds.values()))
        if clock.lap():
            return


if __name__ == "__main__":
    measure("batchwright", ("batchwright", "jax", "optax"), parse_settings(("envpool", "gymnasium", "jax")), train)
