"""The triage on one page, for people without a record to show."""

CHECKLIST = """\
What to do when training goes wrong, most urgent first. One change at a time; two seeds before a verdict.

numbers that are not finite
  [ ] Did the environment give them? `batchwright doctor RUN` names the step. Mend the environment first.
  [ ] --learning-rate a third; --max-grad-norm lower (0.5, then 0.25); --normalize-obs --normalize-rewards
  [ ] a larger rollout: --rollout-steps doubled

returns swing from update to update
  [ ] --rollout-steps doubled (or --num-envs)
  [ ] --advantage-norm rollout, --normalize-rewards; a stronger baseline: --value-rate-factor 2
  [ ] KL above 0.05 nats: --learning-rate a third, --kl-stop 0.03, fewer epochs

nothing is learned
  [ ] KL below 1e-4 nats: --learning-rate three times as high; look for a --max-grad-norm that is tiny
  [ ] --epochs 2 where it is 1; minibatches of 32-256 transitions, 4-32 of them per epoch
  [ ] --entropy-start x 3 for a while
  [ ] gamma: --gamma 1 - 1/(0.25 T .. T) for episodes of T steps
  [ ] learning crawls: --rollout-steps halved

the loss falls, the evaluation does not rise (a batch is learned by heart)
  [ ] --epochs 1 or 2; a larger rollout; --entropy-start x 3

entropy is gone early
  [ ] --entropy-start x 3, or slower: --entropy-anneal 0.5

gamma
  [ ] too myopic (ignores what comes later): higher
  [ ] too fuzzy (slow, values lag behind): lower

values
  [ ] explained variance below 0: --value-rate-factor 2, --adam-beta2 0.99, --normalize-rewards

speed
  [ ] most of the time is collection: more --num-envs until the CPU is 80-90% busy
  [ ] the accelerator is below 70% busy in updates: more environments first, then larger minibatches
  [ ] memory above 90%: fewer environments, a smaller buffer, smaller minibatches

before all of this
  [ ] two runs with one seed give the same curves: batchwright prove ENV
  [ ] evaluation with exploration off, 5-10 episodes, fixed seeds; not before training reaches a threshold
"""
