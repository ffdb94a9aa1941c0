"""The doctor beside RSL-RL, with hand figures. The real RSL-RL 5.5.1 is run by benchmarks/checkers.py."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from batchwright.adapters.rsl_rl_doctor import DoctorLogger, EpisodeMeter, UpdateMeter


class Tensor(np.ndarray[Any, Any]):
    """An array with the few methods of PyTorch's tensors that are called."""

    def detach(self) -> "Tensor":
        return self

    def float(self) -> "Tensor":
        return self.astype(np.float64)

    def exp(self) -> "Tensor":
        return np.exp(self)  # type: ignore[no-any-return]

    def abs(self) -> "Tensor":
        return np.abs(self)  # type: ignore[no-any-return]

    def new_zeros(self, shape: Any) -> "Tensor":
        return tensor(np.zeros(shape))


def tensor(values: Any) -> Tensor:
    return np.array(values, np.float64).view(Tensor)


class Actor:
    """A Gaussian of standard deviation 1: KL is half of the squared distance of the means."""

    def __init__(self) -> None:
        self.output_distribution_params: tuple[Tensor, ...] = ()

    def get_kl_divergence(self, old: Any, new: Any) -> Tensor:
        return ((old[0] - new[0]) ** 2 / 2)[:, 0]  # type: ignore[no-any-return]

    def get_output_log_prob(self, actions: Tensor) -> Tensor:
        return tensor(-((actions - self.output_distribution_params[0]) ** 2 / 2)[:, 0])


class Storage:
    values, returns = tensor([[1.0], [2.0], [3.0], [4.0]]), tensor([[1.0], [2.0], [3.0], [6.0]])

    def mini_batch_generator(self, num_mini_batches: int, num_epochs: int) -> Any:
        for _ in range(num_mini_batches * num_epochs):
            zeros = tensor(np.zeros((2, 1)))
            yield SimpleNamespace(
                actions=zeros, old_distribution_params=(zeros,), old_actions_log_prob=tensor(np.zeros((2, 1)))
            )


def algorithm() -> Any:
    return SimpleNamespace(
        actor=Actor(),
        storage=Storage(),
        num_mini_batches=1,
        num_learning_epochs=2,
        clip_param=0.2,
        learning_rate=3e-4,
        gamma=0.99,
        lam=0.95,
        entropy_coef=0.0,
        value_loss_coef=1.0,
        max_grad_norm=1.0,
    )


def update(alg: Any, *means: float) -> None:
    """An update whose actor has these means, one after another."""
    minibatches = alg.storage.mini_batch_generator(alg.num_mini_batches, alg.num_learning_epochs)
    for mean, _ in zip(means, minibatches, strict=True):
        alg.actor.output_distribution_params = (tensor(np.full((2, 1), mean)),)


def test_kl_is_that_of_the_last_epoch_and_the_clip_fraction_that_of_all() -> None:
    alg = algorithm()
    meter = UpdateMeter(alg)
    assert meter.take() == {}
    update(alg, 0.0, 1.0)
    found = meter.take()
    assert found["kl"] == pytest.approx(0.5)  # 1 squared / 2; the first epoch moved by 0
    assert found["clip_fraction"] == pytest.approx(0.5)  # ratios exp(0) and exp(-1/2) = 0.61
    # The residuals 0, 0, 0, 2 vary by 1, the returns 1, 2, 3, 6 by 14/3 (or both by 3/4 of it).
    assert found["explained_variance"] == pytest.approx(1 - 3 / 14)
    assert meter.take() == {}


def test_returns_are_counted_where_the_logger_has_no_writer() -> None:
    logger = SimpleNamespace(writer=None, process_env_step=lambda *args: None, rewbuffer=[7.0], lenbuffer=[9.0])
    meter = EpisodeMeter(logger)
    assert meter.means() == {}
    for dones in ([0, 0], [1, 0], [0, 1]):
        logger.process_env_step(tensor([1.0, 10.0]), tensor(dones), {})
    assert meter.means() == {"Train/mean_reward": (2 + 30) / 2, "Train/mean_episode_length": (2 + 3) / 2}
    logger.writer = object()
    assert meter.means() == {"Train/mean_reward": 7.0, "Train/mean_episode_length": 9.0}


def runner_of(alg: Any) -> Any:
    logger = SimpleNamespace(
        log=lambda **kwargs: None, process_env_step=lambda *args: None, writer=object(), rewbuffer=[], lenbuffer=[]
    )
    return SimpleNamespace(alg=alg, logger=logger, env=SimpleNamespace(num_envs=4), cfg={"num_steps_per_env": 512})


def iterate(runner: Any, mean: float) -> None:
    for iteration in range(12):
        update(runner.alg, mean, mean)
        runner.logger.log(
            it=iteration,
            total_it=12,
            collect_time=100.0,
            learn_time=1.0,
            loss_dict={"surrogate": 0.0, "value": 1.0, "entropy": 1.0},
            learning_rate=runner.alg.learning_rate,
            action_std=tensor([1.0]),
        )


@pytest.mark.parametrize(("rate", "mean", "named"), [(1.0, 2.0, True), (3e-4, 0.1, False)])
def test_a_planted_learning_rate_is_named_by_what_it_does(rate: float, mean: float, named: bool) -> None:
    alg = algorithm()
    alg.learning_rate = rate
    runner = runner_of(alg)
    said: list[str] = []
    doctor = DoctorLogger(runner, said.append)
    iterate(runner, mean)
    doctor.finish()
    assert any(line.startswith("doctor: learning-rate-too-high: KL is 2 nats") for line in said) == named


def test_a_version_with_other_parts_is_said_and_the_rest_still_read() -> None:
    alg = algorithm()
    alg.actor = None
    said: list[str] = []
    doctor = DoctorLogger(runner_of(alg), said.append)
    assert "not known (5.5.1 is)" in said[0]
    assert doctor.finish() == []
