"""Minibatches for trainers that need a divisor of the rollout: the divisor nearest the target."""

from __future__ import annotations

import math

from batchwright.core.errors import UserError
from batchwright.planning.ledger import Ledger
from batchwright.planning.split import (
    auto_minibatch,
    auto_minibatch_reason,
    divisors_of_product,
    nearest_in_ratio,
    neighbours,
)

# A divisor further than this from the target is no substitute for it.
USEFUL_FACTOR = 2.0
SEARCHED_ENVS = 64


def settle_minibatches(ledger: Ledger, num_envs: int, rollout_steps: int, num_agents: int, seq_length: int) -> None:
    """Writes a minibatch that divides the rollout and is a multiple of the sequence length."""
    rollout = num_envs * rollout_steps * num_agents
    legal = _legal(num_envs, rollout_steps, num_agents, seq_length)
    size, parts = ledger.stated("minibatch_transitions"), ledger.stated("minibatches")
    if size is not None and parts is not None and min(size, rollout) * parts != rollout:
        _refuse_both(ledger, rollout, legal)
    if size is not None:
        _settle_stated(ledger, rollout, legal, size, seq_length)
    elif parts is not None:
        _settle_parts(ledger, rollout, legal, parts)
    else:
        _settle_auto(ledger, rollout, legal, num_envs, rollout_steps, num_agents, seq_length)


def _legal(num_envs: int, rollout_steps: int, num_agents: int, seq_length: int) -> list[int]:
    divisors = divisors_of_product(num_envs, rollout_steps, num_agents)
    return [value for value in divisors if value % seq_length == 0]


def _settle_stated(ledger: Ledger, rollout: int, legal: list[int], size: int, seq_length: int) -> None:
    if size >= rollout:
        reason = "stated" if size == rollout else f"{size} requested: the full rollout of {rollout}"
        ledger.adopt("minibatch_transitions", rollout, "transitions", reason)
        ledger.settle("minibatches", 1, "minibatches", f"{rollout} / {rollout}")
        return
    if size not in legal:
        near = neighbours(legal, size, 3)
        also = f" and is a multiple of the sequence length {seq_length}" if seq_length > 1 else ""
        raise UserError(
            f"a minibatch of {size} is not legal: it must be one that divides the rollout of {rollout}{also}.",
            [f"--minibatch-transitions {value}" for value in near],
        )
    ledger.adopt("minibatch_transitions", size, "transitions")
    ledger.settle("minibatches", rollout // size, "minibatches", f"{rollout} / {size}")


def _settle_parts(ledger: Ledger, rollout: int, legal: list[int], parts: int) -> None:
    if rollout % parts or rollout // parts not in legal:
        near = neighbours(sorted(rollout // value for value in legal), parts, 3)
        raise UserError(
            f"{parts} equal minibatches cannot be cut from a rollout of {rollout}.",
            [f"--minibatches {value}" for value in near],
        )
    ledger.adopt("minibatches", parts, "minibatches")
    ledger.settle("minibatch_transitions", rollout // parts, "transitions", f"{rollout} / {parts}")


def _settle_auto(
    ledger: Ledger, rollout: int, legal: list[int], num_envs: int, rollout_steps: int, num_agents: int, seq_length: int
) -> None:
    target = auto_minibatch(rollout, rollout_steps, seq_length)
    size = nearest_in_ratio(legal, target)
    reason = f"{auto_minibatch_reason(rollout, rollout_steps, seq_length)}; it must divide the rollout"
    if abs(math.log(size / target)) > math.log(USEFUL_FACTOR) + 1e-9:
        size = rollout
        better = _better_num_envs(num_envs, rollout_steps, num_agents, seq_length)
        nearest = f" The nearest num_envs that split well: {', '.join(map(str, better))}." if better else ""
        ledger.remark(
            f"{rollout} transitions have no divisor near {target}: the whole rollout is one minibatch.{nearest}"
        )
        ledger.alternatives += [f"--num-envs {value}" for value in better]
        reason = f"no divisor of {rollout} near {target}: the whole rollout"
    ledger.settle("minibatches", rollout // size, "minibatches", f"{rollout} / {size}")
    ledger.settle("minibatch_transitions", size, "transitions", reason)


def _better_num_envs(num_envs: int, rollout_steps: int, num_agents: int, seq_length: int) -> list[int]:
    """The nearest smaller and larger num_envs whose rollout has a divisor within a quarter of the target."""
    found = []
    for direction in (-1, 1):
        for distance in range(1, SEARCHED_ENVS):
            envs = num_envs + direction * distance
            if envs < 1:
                break
            target = auto_minibatch(envs * rollout_steps * num_agents, rollout_steps, seq_length)
            legal = _legal(envs, rollout_steps, num_agents, seq_length)
            if abs(math.log(nearest_in_ratio(legal, target) / target)) <= math.log(1.25):
                found.append(envs)
                break
    return found


def _refuse_both(ledger: Ledger, rollout: int, legal: list[int]) -> None:
    size, parts = ledger.stated("minibatch_transitions"), ledger.stated("minibatches")
    by_size, by_parts = nearest_in_ratio(legal, size), nearest_in_ratio(legal, max(1, rollout // parts))
    sets = dict.fromkeys((by_size, by_parts))
    raise UserError(
        f"{ledger.place('minibatches')} and {ledger.place('minibatch_transitions')} contradict each other: "
        f"{parts} x {size} = {parts * size}, and the rollout has {rollout} transitions.",
        [f"--minibatches {rollout // value} --minibatch-transitions {value}" for value in sets],
    )
