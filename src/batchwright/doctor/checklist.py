"""The text of `batchwright doctor --checklist`."""

CHECKLIST = """\
What to do when training goes wrong, most urgent first. Change one thing at a time and try two seeds before judging.

NaN or infinite numbers
  [ ] Do they come from the environment? `batchwright doctor RUN` names the step. Fix the environment first.
  [ ] --learning-rate x 1/3; --max-grad-norm lower (0.5, then 0.25); --normalize-obs --normalize-rewards
  [ ] a larger rollout: --rollout-steps x 2

returns swing from update to update
  [ ] --rollout-steps x 2 (or --num-envs x 2)
  [ ] --advantage-norm rollout, --normalize-rewards; a stronger baseline: --value-rate-factor 2
  [ ] KL above 0.05 nats: --learning-rate x 1/3, --kl-stop 0.03, fewer epochs

nothing is learned
  [ ] KL below 1e-4 nats: --learning-rate x 3; check that --max-grad-norm is not tiny
  [ ] --epochs 2 where it is 1; minibatches of 32-256 transitions, 4-32 of them per epoch
  [ ] --entropy-start x 3 for a while
  [ ] gamma: --gamma 1 - 1/(0.25 T .. T) for episodes of T steps
  [ ] learning is slow: --rollout-steps x 1/2

the loss falls, the evaluation does not rise (overfitting the rollout)
  [ ] --epochs 1 or 2; a larger rollout; --entropy-start x 3

entropy collapses early
  [ ] --entropy-start x 3, or a slower anneal: --entropy-anneal 0.5

gamma
  [ ] too myopic (ignores late rewards): higher
  [ ] too long (learning is slow, values lag behind): lower

critic
  [ ] explained variance below 0: --value-rate-factor 2, --adam-beta2 0.99, --normalize-rewards

speed
  [ ] collection takes most of the time: more --num-envs until the CPU is 80-90% busy
  [ ] the accelerator is below 70% busy in updates: more environments first, then larger minibatches
  [ ] memory above 90%: fewer environments, a smaller buffer, smaller minibatches

before anything else
  [ ] two runs with the same seed give the same curves: batchwright prove ENV
  [ ] evaluate without exploration, 5-10 episodes, fixed seeds; not before training reaches a threshold
"""
