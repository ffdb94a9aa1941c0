"""Processes and devices in a plan: how environments are shared out, and what does not combine with them."""

from __future__ import annotations

from dataclasses import replace

from batchwright.config.load import Resolved
from batchwright.config.schema import ON_POLICY, flag_of
from batchwright.core.errors import UserError
from batchwright.planning.ledger import Ledger
from batchwright.planning.plan import Plan
from batchwright.planning.quantity import DERIVED, PINNED, Quantity, counted

SPREAD = ("processes", "devices")


def shards_of(ledger: Ledger) -> int:
    """Parts that a rollout is spread over: one for every device of every process."""
    return (ledger.stated("processes") or 1) * (ledger.stated("devices") or 1)


def default_envs(ledger: Ledger, default: int) -> tuple[int, str]:
    """The default number of environments as a multiple of what they are spread over, with what that adds."""
    shards = shards_of(ledger)
    envs = -(-default // shards) * shards
    return envs, "" if envs == default else f"; {default} rounded up to a multiple of {shards}"


def settle_processes(ledger: Ledger, num_envs: int, num_agents: int) -> None:
    """Writes down processes, devices and the environments of each; shares that are not equal are refused."""
    shards = shards_of(ledger)
    if shards == 1:
        return
    if num_agents > 1:
        raise UserError(
            f"{num_agents} agents in each environment: their rows are not shared out over processes or devices.",
            ["leave out --processes and --devices"],
        )
    for name in SPREAD:
        if ledger.stated(name) is not None:
            ledger.adopt(name, ledger.stated(name), name)
    processes = ledger.stated("processes") or 1
    if num_envs % shards:
        nearest = sorted({max(1, num_envs // shards) * shards, -(-num_envs // shards) * shards})
        over = f"{counted(processes, 'process')} of {counted(shards // processes, 'device')}"
        fewer = max(count for count in range(1, shards + 1) if num_envs % count == 0)
        raise UserError(
            f"{counted(num_envs, 'env')} cannot be shared out equally over {over}.",
            [*(f"--num-envs {envs}" for envs in nearest), *_fewer(ledger, fewer)],
        )
    each = num_envs // processes
    written = f"{counted(num_envs, 'env')} / {counted(processes, 'process')}"
    ledger.settle("envs_per_process", each, "envs", written)


def _fewer(ledger: Ledger, count: int) -> list[str]:
    return [f"--processes {count}"] if (ledger.stated("devices") or 1) == 1 else []


def refuse_unspreadable(ledger: Ledger) -> None:
    """Refuses what cannot be combined with several processes or devices."""
    if shards_of(ledger) == 1:
        return
    name = next(name for name in SPREAD if (ledger.stated(name) or 1) > 1)
    if ledger.config.experience.by_episodes:
        raise UserError(
            f"{ledger.place(name)} needs rollouts of equal size in every process; whole episodes end anywhere.",
            ["--rollout-steps N", ledger.without(name)],
        )
    reasons = {
        "log_info": "it would show the environments of one process alone",
    }
    for other, why in reasons.items():
        if ledger.stated(other) is not None:
            raise UserError(
                f"{ledger.place(other)} does not go with {ledger.place(name)}: {why}.",
                [ledger.without(other), ledger.without(name)],
            )
    if ledger.stated("doctor") == "act":
        raise UserError(
            f"{ledger.place('doctor')} does not go with {ledger.place(name)}: the doctor reads the record of the first "
            "process, and all must change at once.",
            ["--doctor say", ledger.without(name)],
        )


def refuse_processes_elsewhere(resolved: Resolved, trainer: str) -> None:
    """Refuses processes in a plan for another trainer, which has its own way to start them."""
    for name in SPREAD:
        if resolved.config.get(name) is not None:
            raise UserError(
                f"{flag_of(name)} starts Batchwright's own training; {trainer} has its own way.",
                [f"leave out {flag_of(name)}"],
            )


def refuse_spread_units(plan: Plan, what: str) -> None:
    """Refuses processes where many runs are trained, each in one process."""
    if plan.get("processes", 1) > 1:
        raise UserError(
            f"{what} trains many runs, each in one process; --processes {plan['processes']} is for a single run.",
            ["leave out --processes", f"--workers {plan['processes']} trains runs side by side"],
        )


def with_processes(plan: Plan, processes: int) -> Plan:
    """The plan of a run that so many processes go on with; refused where they cannot share it out."""
    planned = plan.get("processes", 1)
    if processes == planned:
        return plan
    unable = [name for name in ("rollout_episodes", "num_agents", "log_info", "callback") if plan.get(name) is not None]
    if processes > 1 and (plan.regime != ON_POLICY or unable or plan.get("doctor") == "act"):
        what = "--doctor act" if plan.get("doctor") == "act" else flag_of(unable[0]) if unable else plan.algo
        raise UserError(f"--processes {processes} does not go with {what} of this run.", ["leave out --processes"])
    num_envs, shards = plan["num_envs"], processes * plan.get("devices", 1)
    if num_envs % shards:
        able = [count for count in range(1, num_envs + 1) if num_envs % (count * plan.get("devices", 1)) == 0]
        near = sorted(able, key=lambda count: abs(count - processes))[:2]
        raise UserError(
            f"{counted(num_envs, 'env')} of this run cannot be shared out equally over {processes} processes.",
            [f"--processes {count}" for count in sorted(near)],
        )
    reason = f"{counted(planned, 'process')} planned"
    changed = {
        "processes": Quantity("processes", processes, "processes", f"stated when resumed; {reason}", PINNED, "flag"),
        "envs_per_process": Quantity(
            "envs_per_process", num_envs // processes, "envs", f"{counted(num_envs, 'env')} / {processes}", DERIVED
        ),
    }
    return replace(plan, quantities={**plan.quantities, **changed})
