"""The memory of a policy in a plan: its kind, its size, and the sequences that it learns from."""

from __future__ import annotations

from batchwright.config.load import Resolved
from batchwright.config.schema import flag_of
from batchwright.core.errors import UserError
from batchwright.planning.ledger import Ledger
from batchwright.planning.split import largest_divisor

MEMORY_SIZE = 128
SEQ_LENGTH = 16
GATES = {"gru": 3, "lstm": 4}


def seq_length_of(ledger: Ledger) -> int:
    """Steps of one sequence: as stated; with memory 16, or fewer where they must divide the stated rollout."""
    stated = ledger.stated("seq_length")
    if stated is not None:
        return int(stated)
    if ledger.stated("memory") is None:
        return 1
    steps = ledger.stated("rollout_steps")
    return SEQ_LENGTH if steps is None else largest_divisor(int(steps), SEQ_LENGTH)


def memory_numbers(ledger: Ledger) -> tuple[int, int]:
    """(units, gates) of the planned memory."""
    return int(ledger.quantities["memory_size"].value or 1), GATES[str(ledger.quantities["memory"].value)]


def settle_memory(ledger: Ledger) -> None:
    """Writes down the memory and its sequences, where there are any."""
    if ledger.stated("memory") is not None:
        ledger.adopt("memory", ledger.stated("memory"), "")
        ledger.setting("memory_size", MEMORY_SIZE, "enough for small tasks; published sizes are 64 to 256")
    if ledger.stated("seq_length") is not None:
        ledger.adopt("seq_length", seq_length_of(ledger), "steps")
    elif ledger.stated("memory") is not None:
        why = "default: gradients reach so many steps back"
        if ledger.stated("rollout_steps") is not None:
            why += f"; at most {SEQ_LENGTH}, and divides {ledger.stated('rollout_steps')} rollout steps"
        ledger.settle("seq_length", seq_length_of(ledger), "steps", why, "default")


def refuse_memory_elsewhere(resolved: Resolved, trainer: str) -> None:
    """Refuses a memory in a plan for another trainer, which builds its own networks."""
    if resolved.config.get("memory") is not None:
        raise UserError(
            f"--memory is that of Batchwright's networks; {trainer} states the memory of its own ones.",
            [f"--seq-length {SEQ_LENGTH} plans minibatches of whole sequences", "leave out --memory"],
        )


def refuse_memory_contradictions(ledger: Ledger) -> None:
    """Refuses what a policy with memory cannot be combined with."""
    kind = ledger.stated("memory")
    if kind is None:
        if ledger.stated("memory_size") is not None:
            size = ledger.stated("memory_size")
            raise UserError(
                f"{ledger.place('memory_size')} is the size of a memory, and none is stated.",
                [f"--memory gru --memory-size {size}", ledger.without("memory_size")],
            )
        return
    if ledger.config.experience.by_episodes:
        name = "rollout_episodes" if ledger.stated("rollout_episodes") is not None else "total_episodes"
        raise UserError(
            f"{ledger.place('memory')} learns from sequences of one length; {flag_of(name)} collects whole episodes.",
            [f"{ledger.without(name)}, state --rollout-steps N or --total-steps N", ledger.without("memory")],
        )
    if ledger.stated("component_weighting") == "learned":
        raise UserError(
            f"{ledger.place('component_weighting')} compares gradients of single steps, which a policy with memory "
            "does not have.",
            ["--component-weighting fixed", ledger.without("memory")],
        )
