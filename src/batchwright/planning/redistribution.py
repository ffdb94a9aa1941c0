"""Return decomposition: the method, and how many timesteps one reward update sees."""

from __future__ import annotations

from batchwright.core.errors import UserError
from batchwright.planning.ledger import Ledger
from batchwright.planning.plan import TaskFacts
from batchwright.planning.quantity import counted

RRD_NUMBERS = ("rrd_timesteps_per_update", "subsequence_timesteps", "reward_learning_rate")


def settle_redistribution(ledger: Ledger, task: TaskFacts) -> None:
    """Settings of the rewards that replace the environment's."""
    way = ledger.stated("redistribute")
    if ledger.stated("reward_only"):
        _refuse_without_network(ledger, way)
        ledger.adopt("reward_only", True, "")
        ledger.setting("collecting_run", "random actions", "no trained policy is stated", unit="")
    elif ledger.stated("collecting_run"):
        raise UserError(
            f"{ledger.place('collecting_run')} collects for a reward network alone; {ledger.config.algo} collects with "
            "the policy it learns.",
            ["--reward-only", ledger.without("collecting_run")],
        )
    ledger.setting("episodic_reward", False, "rewards are the environment's own", unit="")
    if way is None:
        _refuse_numbers(ledger, RRD_NUMBERS, "needs return decomposition", "--redistribute rrd")
        return
    ledger.adopt("redistribute", way, "")
    if way == "ircr":
        _refuse_numbers(ledger, RRD_NUMBERS, "belongs to a reward network; ircr has none", "--redistribute rrd")
        return
    ledger.setting("reward_learning_rate", 3e-4, "the official code's", unit="")
    if way == "full":
        _whole_episodes(ledger, task)
    else:
        _subsequences(ledger, how=way)


def _refuse_without_network(ledger: Ledger, way: str | None) -> None:
    if way is None or way == "ircr":
        given = "no return decomposition is stated" if way is None else "ircr has none"
        raise UserError(f"--reward-only learns a reward network; {given}.", ["--redistribute rrd --reward-only"])


def _refuse_numbers(ledger: Ledger, names: tuple[str, ...], why: str, instead: str) -> None:
    for name in names:
        if ledger.stated(name) is not None:
            raise UserError(f"{ledger.place(name)} {why}.", [f"{instead} {ledger.place(name)}"])


def _whole_episodes(ledger: Ledger, task: TaskFacts) -> None:
    """The plain decomposition: all timesteps of an episode, as many episodes as the timesteps hold, at least one."""
    _refuse_numbers(ledger, ("subsequence_timesteps",), "is for random timesteps; full takes all", "--redistribute rrd")
    if task.episode_steps is None:
        raise UserError(
            "--redistribute full needs to know how long an episode can be.",
            ["--episode-steps 1000", "--redistribute rrd"],
        )
    longest = task.episode_steps
    timesteps = ledger.setting("rrd_timesteps_per_update", longest, "one whole episode")
    ledger.settle("subsequence_timesteps", longest, "timesteps", "all of an episode, the time limit")
    parts = max(1, timesteps // longest)
    reason = f"{timesteps} timesteps // {longest} of an episode, at least one"
    ledger.settle("subsequences_per_update", parts, "subsequences", reason)


def _subsequences(ledger: Ledger, how: str) -> None:
    """How many random subsequences one reward update sees."""
    length = ledger.stated("subsequence_timesteps")
    timesteps = ledger.stated("rrd_timesteps_per_update")
    if timesteps is None:
        default = 256 if length is None else 4 * length
        timesteps = ledger.setting("rrd_timesteps_per_update", default, "four subsequences")
    else:
        ledger.setting("rrd_timesteps_per_update", timesteps, "")
    if length is None:
        length = ledger.setting("subsequence_timesteps", min(64, timesteps), "the official code's K")
    else:
        ledger.setting("subsequence_timesteps", length, "")
    settle_subsequences(ledger, how, timesteps, length)


def settle_subsequences(ledger: Ledger, how: str, timesteps: int, length: int) -> None:
    """Writes how many subsequences of `length` one reward update of `timesteps` sees; a remainder stays unused."""
    if how == "rrd-unbiased" and length < 2:
        raise UserError(
            "--redistribute rrd-unbiased subtracts the variance within a subsequence; one timestep has no variance.",
            ["--subsequence-timesteps 2", "--redistribute rrd"],
        )
    parts, unused = divmod(timesteps, length)
    if parts < 1:
        shorter = "--redistribute rrd" if how == "full" else f"--subsequence-timesteps {timesteps}"
        raise UserError(
            f"{timesteps} timesteps per update cannot hold one subsequence of {length}.",
            [f"--rrd-timesteps-per-update {length}", shorter],
        )
    reason = f"{timesteps} timesteps // {length} per subsequence" + (f", {unused} unused" if unused else "")
    ledger.settle("subsequences_per_update", parts, "subsequences", reason)
    if unused:
        ledger.remark(
            f"{timesteps} timesteps hold {parts} subsequences of {length}; {unused} timesteps are unused. "
            f"Exact: --rrd-timesteps-per-update {parts * length}."
        )
    ledger.check(
        "subsequences",
        parts > 1,
        f"{counted(parts, 'subsequence')} per reward update; one is a noisy gradient: "
        f"--rrd-timesteps-per-update {4 * length}",
        "official RRD code uses 4 x 64",
    )
