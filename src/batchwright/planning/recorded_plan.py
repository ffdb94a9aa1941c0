"""The plan of a reward model from recorded episodes: what is read, what is held out, what each update draws."""

from __future__ import annotations

from dataclasses import dataclass, replace

from batchwright.config.load import Resolved
from batchwright.config.schema import FIELDS, RECORDED
from batchwright.core.errors import UserError
from batchwright.core.machine import Machine, with_overrides
from batchwright.planning.ledger import Ledger
from batchwright.planning.memory import GOOD_SHARE, show_bytes
from batchwright.planning.network_plan import FULL_SIDE, settle_hidden
from batchwright.planning.plan import Plan, TaskFacts
from batchwright.planning.quantity import counted
from batchwright.planning.redistribution import settle_subsequences

DEFAULT_UPDATES = {False: 5_000, True: 1_500}
"""Of a whole run, for vectors and for images."""
CHECKPOINTS_PER_RUN = 5
EVALUATIONS_PER_RUN = 10


@dataclass(frozen=True)
class RecordedFacts:
    """What the planner needs to know of a recording."""

    name: str
    kind: str
    """The format, as shown to users."""
    lengths: tuple[int, ...]
    """Steps of every episode that is read."""
    available_episodes: int
    obs_bytes: int
    """Of one observation at the stored types, over the chosen keys."""
    action_bytes: int
    images: bool
    returns_from: str
    """Where the returns come from, as shown to users."""
    digest: str = ""
    """Of episodes, lengths and returns."""
    image_side: int | None = None
    """Pixels of the smallest side of an image; None without images."""


def plan_recorded(resolved: Resolved, facts: RecordedFacts, machine: Machine) -> Plan:
    """The plan of a reward model's run; a recording that does not fit in memory is refused before it is read."""
    resolved, left_out = _without_foreign_preset_values(resolved)
    machine = with_overrides(machine, ram_gb=resolved.config.hardware.ram_gb)
    ledger = Ledger(resolved)
    ledger.refuse_foreign(RECORDED)
    if left_out:
        ledger.remark(
            f"preset {' '.join(resolved.presets)}: {', '.join(left_out)} are for training in an environment; not used."
        )
    _split(ledger, facts)
    how = ledger.setting("redistribute", "rrd", "random timesteps of each episode (Ren et al., 2022)", unit="")
    if how == "ircr":
        raise UserError(
            "ircr uses returns directly; it has no reward model to learn.",
            ["--redistribute rrd", "--redistribute full"],
        )
    _draws(ledger, facts, str(how))
    _updates(ledger, facts)
    _network(ledger, facts)
    _running(ledger)
    ledger.adopt_rest()
    for name in ("obs_keys", "action_key", "reward_key", "success_key", "returns", "allow_constant_returns"):
        if ledger.stated(name) is not None:
            ledger.adopt(name, ledger.stated(name), "")
    _memory(ledger, facts, machine)
    ledger.settle(
        "recording_digest", facts.digest, "", "of episodes, lengths and returns: a resumed run needs the same"
    )
    return Plan(
        RECORDED,
        str(how),
        ledger.quantities,
        tuple(ledger.checks),
        tuple(ledger.remarks),
        tuple(ledger.alternatives),
        TaskFacts(name=facts.name),
        machine.describe(),
    )


def _without_foreign_preset_values(resolved: Resolved) -> tuple[Resolved, list[str]]:
    """Presets for return decomposition hold settings of the policy too: removed here, and their names returned."""
    left_out = [
        name
        for name, origin in resolved.origins.items()
        if origin.kind == "preset" and RECORDED not in FIELDS[name].metadata["regimes"]
    ]
    kept = {name: origin for name, origin in resolved.origins.items() if name not in left_out}
    return replace(resolved, origins=kept), left_out


def _split(ledger: Ledger, facts: RecordedFacts) -> None:
    """Splits the episodes into training and held-out ones."""
    episodes, steps = len(facts.lengths), sum(facts.lengths)
    reason = f"{facts.kind}: {counted(facts.available_episodes, 'episode')} there"
    if ledger.stated("recorded_episodes") is not None:
        ledger.adopt("recorded_episodes", ledger.stated("recorded_episodes"), "episodes")
        if episodes < facts.available_episodes:
            reason += f", {episodes} of them drawn by the seed"
    ledger.settle("episodes", episodes, "episodes", reason)
    low, high = min(facts.lengths), max(facts.lengths)
    ledger.settle(
        "recorded_steps", steps, "steps", f"episodes of {low} to {high} steps, {steps / episodes:.4g} on average"
    )
    ledger.settle("returns_from", facts.returns_from, "", "one number per episode is all that is learned from")
    share = ledger.setting("held_out", 0.2, "one in five measures the fit", unit="share")
    held = min(round(share * episodes), episodes - 1)
    if share > 0 and held == 0:
        held = 1 if episodes > 2 else 0
    ledger.settle("held_out_episodes", held, "episodes", f"{share:g} of {episodes}, drawn by the seed, at least 1")
    ledger.settle("training_episodes", episodes - held, "episodes", f"{episodes} - {held}")
    ledger.check(
        "held-out",
        held >= 5 or share == 0,
        f"{counted(held, 'held-out episode')}: a correlation over fewer than 5 means little",
        "statistics of small samples",
    )
    if share == 0:
        ledger.remark("nothing is held out: the fit is not measured on episodes that were not learned from.")


def _draws(ledger: Ledger, facts: RecordedFacts, how: str) -> None:
    """Subsequences per update; the full decomposition takes whole episodes instead."""
    longest = max(facts.lengths)
    if how == "full":
        if ledger.stated("subsequence_timesteps") is not None and _is_flag(ledger, "subsequence_timesteps"):
            raise UserError(
                f"{ledger.place('subsequence_timesteps')} is for random timesteps; full takes all of an episode.",
                ["leave out --subsequence-timesteps", "--redistribute rrd"],
            )
        ledger.settle("subsequence_timesteps", longest, "timesteps", "all of an episode; the longest sets the shape")
        if _is_flag(ledger, "rrd_timesteps_per_update"):
            timesteps = int(ledger.setting("rrd_timesteps_per_update", 0, ""))
        else:
            timesteps = 4 * longest
            ledger.settle("rrd_timesteps_per_update", timesteps, "timesteps", "four whole episodes")
        length = longest
    else:
        stated = ledger.stated("rrd_timesteps_per_update")
        length = int(ledger.setting("subsequence_timesteps", min(64, stated or 64), "the official code's K"))
        timesteps = int(ledger.setting("rrd_timesteps_per_update", 4 * length, "four subsequences"))
    settle_subsequences(ledger, how, timesteps, length)
    short = sum(steps < length for steps in facts.lengths)
    if short and how != "full":
        ledger.remark(
            f"{counted(short, 'episode')} of {len(facts.lengths)} have fewer than {length} steps: "
            "their timesteps are drawn with replacement."
        )


def _is_flag(ledger: Ledger, name: str) -> bool:
    origin = ledger.resolved.origin(name)
    return origin is not None and origin.kind != "preset"


def _updates(ledger: Ledger, facts: RecordedFacts) -> None:
    updates = int(ledger.setting("updates_per_iteration", 100, "one compiled call"))
    total = int(ledger.setting("total_updates", DEFAULT_UPDATES[facts.images], "a first run on two cores"))
    iterations = -(-total // updates)
    ledger.settle("iterations", iterations, "iterations", f"{total} updates / {updates} per iteration, rounded up")
    actual = iterations * updates
    extra = f"; {actual - total} more than requested" if actual > total else ""
    ledger.settle("actual_updates", actual, "updates", f"{iterations} iterations x {updates} updates{extra}")
    timesteps = int(ledger.quantities["subsequences_per_update"].value or 0) * int(
        ledger.quantities["subsequence_timesteps"].value or 0
    )
    training = sum(facts.lengths) * int(ledger.quantities["training_episodes"].value or 1) / len(facts.lengths)
    ledger.settle(
        "reuse",
        round(actual * timesteps / training, 2),
        "draws per timestep",
        f"{actual} updates x {timesteps} timesteps / {training:.0f} recorded ones, on average",
    )


def _network(ledger: Ledger, facts: RecordedFacts) -> None:
    ledger.setting("learning_rate", 3e-4, "the official code's, with Adam", unit="")
    ledger.setting("weight_decay", 0.0, "off", unit="")
    settle_hidden(ledger, facts.image_side or FULL_SIDE if facts.images else None, "256,256", "the official code's")


def _running(ledger: Ledger) -> None:
    iterations = int(ledger.quantities["iterations"].value or 1)
    ledger.setting(
        "eval_every", -(-iterations // EVALUATIONS_PER_RUN), f"the fit on held-out episodes {EVALUATIONS_PER_RUN} times"
    )
    ledger.setting("checkpoint_every", -(-iterations // CHECKPOINTS_PER_RUN), f"{CHECKPOINTS_PER_RUN} in the run")
    ledger.setting("seed", 0, "any number; the same one repeats a run", unit="")


def _memory(ledger: Ledger, facts: RecordedFacts, machine: Machine) -> None:
    """What is held during the run: all chosen arrays, and what one iteration draws from them."""
    episodes, steps = len(facts.lengths), sum(facts.lengths)
    held = (steps + episodes) * facts.obs_bytes + steps * (facts.action_bytes + 4)
    on_disk = bool(ledger.setting("frames_on_disk", False, "in RAM, where drawing from it is quickest", unit=""))
    ledger.settle(
        "recording_bytes",
        held,
        "bytes",
        f"({steps} steps + {episodes} last ones) x {facts.obs_bytes} B + {steps} x {facts.action_bytes + 4} B = "
        f"{show_bytes(held)}, on {'disk' if on_disk else 'RAM'}",
    )
    rows = int(ledger.quantities["subsequences_per_update"].value or 0) * int(
        ledger.quantities["subsequence_timesteps"].value or 0
    )
    updates = int(ledger.quantities["updates_per_iteration"].value or 0)
    row = 2 * facts.obs_bytes + facts.action_bytes
    # Once as drawn by the host, once as handed to the compiled program.
    drawn = 2 * updates * rows * row
    ledger.settle(
        "drawn_bytes",
        drawn,
        "bytes",
        f"{updates} updates x {rows} timesteps x {row} B, held twice = {show_bytes(drawn)}",
    )
    room = machine.ram_bytes * GOOD_SHARE
    if drawn > room:
        fits = int(room // (2 * rows * row))
        raise UserError(
            f"what one iteration draws, {show_bytes(drawn)}, does not fit in {GOOD_SHARE:.0%} of "
            f"{show_bytes(machine.ram_bytes)} RAM; the most that fit are {fits} updates per iteration.",
            [f"--updates-per-iteration {fits}"] if fits else ["--rrd-timesteps-per-update lower"],
        )
    if not on_disk and held + drawn > room:
        raise _too_large(facts, held, drawn, room, machine)


def _too_large(facts: RecordedFacts, held: int, drawn: int, room: float, machine: Machine) -> UserError:
    longest = max(facts.lengths)
    one = (longest + 1) * facts.obs_bytes + longest * (facts.action_bytes + 4)
    fits = int((room - drawn) // one)
    fixes = [f"--recorded-episodes {fits}"] if fits >= 2 else []
    return UserError(
        f"{facts.name} needs {show_bytes(held)} and {show_bytes(drawn)} to draw from it; {GOOD_SHARE:.0%} of RAM are "
        f"{show_bytes(room)}. The most episodes that fit, as long as the longest, are {max(0, fits)}.",
        [*fixes, f"--frames-on-disk ({show_bytes(held)} in the run directory)", "--obs-keys with fewer of them"],
    )
