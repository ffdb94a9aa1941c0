"""PPO training speed of Batchwright; `--feed` is the engine: envpool, gymnasium, jax."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

from batchwright.api import plan_to_train, set_up_jax
from peers.common import IterationClock, Settings, measure, parse_settings


def train(settings: Settings, clock: IterationClock) -> None:
    set_up_jax()
    from batchwright.training.build import build_session
    from batchwright.training.on_policy import iterate, make_record

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
    session = build_session(made, settings.env)
    state = session.fresh_state()
    while True:
        state, told = iterate(session, state)
        make_record(session, state, told, told.collect_seconds + told.update_seconds)
        if clock.lap():
            return


if __name__ == "__main__":
    measure("batchwright", ("batchwright", "jax", "optax"), parse_settings(("envpool", "gymnasium", "jax")), train)
