"""Plans in Python: read numbers and reasons, change one and hold another, catch a contradiction."""

import batchwright


def show(title: str, plan, *names: str) -> None:
    """Prints some numbers of a plan with their reasons."""
    print(f"{title} ({plan.regime}, {plan.algo})")
    for name in names:
        quantity = plan.quantities[name]
        print(f"  {name:<24} {quantity.value!s:>10} {quantity.unit:<14} {quantity.source:<8} {quantity.reason}")


def main() -> None:
    rollout = ("num_envs", "rollout_steps", "rollout_transitions", "minibatch_transitions", "updates_per_iteration")
    show("CartPole", batchwright.plan("CartPole-v1"), *rollout)
    show("64 envs", batchwright.plan("CartPole-v1", num_envs=64), *rollout)
    held = batchwright.plan("CartPole-v1", num_envs=64, hold="transitions-per-update")
    show("64 envs, held", held, *rollout)

    replay = batchwright.plan(preset="rrd-official-sac", obs_shape=(17,), action_size=6)
    show("replay", replay, "subsequences_per_update", "updates_per_step", "batch_bytes", "buffer_bytes")

    robot = batchwright.plan(policy="act", gpu_memory_gb=12, cores=32)
    show("recorded data", robot, "samples_per_step", "largest_samples_per_step", "workers", "memory_use")
    for warning in robot.warnings:
        print(f"  warning: {warning}")

    try:
        batchwright.plan(minibatches=4, minibatch_transitions=100)
    except batchwright.UserError as error:
        print(f"refused: {error.message}")
        for fix in error.fixes:
            print(f"  fix: {fix}")


if __name__ == "__main__":
    main()
