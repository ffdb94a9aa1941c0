"""Check that every peer does the work it is timed for: updates per iteration and the size of its networks.

    python benchmarks/peers/check_updates.py

A clock that laps twice in an iteration, a dropped minibatch or a shared trunk would all pass for speed.
"""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

from peers.common import IterationClock, Settings

PEERS = ("sb3", "sbx", "rl_games", "tianshou", "torchrl")
ITERATIONS = 3
EXPECTED_UPDATES = 8 * 32 // 64 * 3
EXPECTED_PARAMETERS = {
    # actor and critic apart: 2 x (inputs x 64 + 64 + 64 x 64 + 64) + 65 x (actions + 1), + 6 log deviations
    "CartPole-v1": 2 * (4 * 64 + 64 + 64 * 64 + 64) + 65 * 3,
    "HalfCheetah-v5": 2 * (17 * 64 + 64 + 64 * 64 + 64) + 65 * 7 + 6,
}


class CountingClock(IterationClock):
    """Notes the updates made so far at every lap; ends after three iterations."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.updates = 0
        self.parameters = 0
        self.updates_at_lap: list[int] = []

    def lap(self) -> bool:
        super().lap()
        self.updates_at_lap.append(self.updates)
        return len(self.updates_at_lap) >= ITERATIONS


def count_torch_updates(clock: CountingClock) -> None:
    from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

    def count(optimizer: Optimizer, *_: object) -> None:
        clock.updates += 1
        clock.parameters = sum(p.numel() for group in optimizer.param_groups for p in group["params"])

    register_optimizer_step_post_hook(count)


def count_sbx_updates(clock: CountingClock) -> None:
    import jax
    from sbx import PPO

    original = PPO._one_update

    def counted(**arguments: object) -> object:
        clock.updates += 1
        states = (arguments["actor_state"].params, arguments["vf_state"].params)  # type: ignore[attr-defined]
        clock.parameters = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(states))
        return original(**arguments)

    PPO._one_update = staticmethod(counted)


def check(peer: str, env: str) -> str:
    """Empty when the peer does what it should."""
    clock = CountingClock(Settings(env, 8, 32, 64, 3, 0.0, "usual", 1, 1))
    (count_sbx_updates if peer == "sbx" else count_torch_updates)(clock)
    importlib.import_module(f"peers.{peer}").train(clock.settings, clock)
    expected = [EXPECTED_UPDATES * (i + 1) for i in range(ITERATIONS)]
    if clock.updates_at_lap != expected:
        return f"updates after each iteration {clock.updates_at_lap}, expected {expected}"
    if clock.parameters != EXPECTED_PARAMETERS[env]:
        return f"{clock.parameters} parameters, expected {EXPECTED_PARAMETERS[env]}"
    return ""


def main() -> int:
    if len(sys.argv) == 3:
        problem = check(sys.argv[1], sys.argv[2])
        print(f"\n{' '.join(sys.argv[1:])}: {problem or 'as expected'}", flush=True)
        return 1 if problem else 0
    pairs = [(peer, env) for peer in PEERS for env in EXPECTED_PARAMETERS]
    failed = 0
    for pair in pairs:
        done = subprocess.run([sys.executable, __file__, *pair], capture_output=True, text=True, check=False)
        failed += done.returncode != 0
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        told = [line for line in lines if line.startswith(f"{pair[0]} {pair[1]}:")]
        print(told[-1] if told else f"{pair[0]} {pair[1]}: failed: {lines[-1] if lines else 'no output'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
