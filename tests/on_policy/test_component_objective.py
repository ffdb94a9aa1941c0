"""What the policy learns from components: the plain sum's gradient by default, another one in every other form."""

# T = 8 steps, N = 4 environments, K = 2 components.

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batchwright.on_policy.on_policy_factory import make_on_policy_learner
from batchwright.on_policy.on_policy_learner import OnPolicyLearner
from batchwright.on_policy.on_policy_update import PreparedRollout, make_loss, prepare_rollout
from run_batchwright import plan

SMALL: dict[str, Any] = {
    "env": "TwoObjectives-v0",
    "engine": "jax",
    "num_envs": 4,
    "rollout_steps": 8,
    "minibatches": 1,
    "epochs": 1,
    "hidden": (8,),
    "total_steps": 32,
    "advantage_norm": "none",
}
FORMS: dict[str, dict[str, Any]] = {
    "plain": {"components": ("none",)},
    "default": {},
    "weighted": {"component_weights": ("1", "1000")},
    "balanced": {"component_balance": True},
    "learned": {"component_weights": ("1", "1000"), "component_weighting": "learned"},
    "learned towards small": {"component_weighting": "learned", "component_target": "small"},
}


class Prepared:
    """The first rollout of a form, its critic silenced so that advantages are known, and its policy gradient."""

    def __init__(self, form: str) -> None:
        made = plan(**SMALL, **FORMS[form])
        self.learner: OnPolicyLearner = make_on_policy_learner(made, SMALL["env"])
        state = self.learner.start()
        tree = self.learner.policy.unravel(state.train.params)
        tree["value"] = {"scale": 0 * tree["value"]["scale"], "shift": 0 * tree["value"]["shift"]}
        state = replace(state, train=state.train._replace(params=self.learner.policy.ravel(tree)))
        stats = state.obs_stats(False)
        collected = self.learner.collect_rollout(state, stats)
        self.rollout = collected.rollout
        scaled = self.learner._absorb_rewards(state, collected)
        settings, policy = self.learner.on_policy_settings.update, self.learner.policy

        @jax.jit
        def prepared(train: Any, rollout: Any, hyper: Any) -> tuple[PreparedRollout, Any]:
            found = prepare_rollout(policy, settings, train, rollout, stats, hyper)
            grad_fn = jax.grad(make_loss(policy, settings), has_aux=True)
            only_policy = hyper._replace(value_weight=0.0)
            return found, grad_fn(policy.unravel(train.params), found.rows, found.rows.weight.sum(), only_policy)[0]

        self.prepared, gradient = prepared(state.train, collected.rollout, scaled.hyper)
        self.gradient = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradient["net"]["actor"])])

    @property
    def advantage(self) -> np.ndarray:
        return np.asarray(self.prepared.rows.advantage)


@pytest.fixture(scope="module")
def forms() -> dict[str, Prepared]:
    return {form: Prepared(form) for form in FORMS}


def direction(gradient: np.ndarray) -> np.ndarray:
    return gradient / np.linalg.norm(gradient)


def test_the_default_has_the_plain_sums_advantages_and_its_policy_gradient(forms: dict[str, Prepared]) -> None:
    plain, default = forms["plain"], forms["default"]
    np.testing.assert_array_equal(plain.rollout.reward[..., 0], default.rollout.reward.sum(-1))
    np.testing.assert_allclose(default.advantage, plain.advantage, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(default.gradient, plain.gradient, rtol=1e-3, atol=1e-2)


def test_values_learn_each_component_on_its_own_scale(forms: dict[str, Prepared]) -> None:
    targets = np.asarray(forms["default"].prepared.rows.target)
    # One pays a thousand times the other; both are learned as numbers of about 1.
    assert (np.abs(targets).max(0) > 0.3).all() and (np.abs(targets).max(0) < 10).all()
    balanced = np.asarray(forms["balanced"].prepared.rows.target)
    np.testing.assert_allclose(balanced.std(0).max() / balanced.std(0).min(), 1.0, atol=1.0)


@pytest.mark.parametrize("form", ["weighted", "balanced", "learned", "learned towards small"])
def test_every_other_form_has_a_policy_gradient_of_its_own(form: str, forms: dict[str, Prepared]) -> None:
    plain = direction(forms["plain"].gradient)
    assert float(direction(forms[form].gradient) @ plain) < 0.9999
    if form == "learned":
        assert float(direction(forms[form].gradient) @ direction(forms["weighted"].gradient)) < 0.999999


def test_weights_count_in_the_units_of_the_reward(forms: dict[str, Prepared]) -> None:
    metrics = {name: float(value) for name, value in forms["weighted"].prepared.metrics.items()}
    assert metrics["component/small/weight"] == pytest.approx(1000 / 1001, rel=1e-4)
    default = {name: float(value) for name, value in forms["default"].prepared.metrics.items()}
    assert default["component/small/weight"] == pytest.approx(0.5, rel=1e-4)
    assert default["component/large/share"] > 0.99 > metrics["component/large/share"]
    shares = [metrics[f"component/{name}/share"] for name in ("large", "small")]
    assert sum(shares) == pytest.approx(1.0, rel=1e-4)


def test_a_learned_weighting_has_a_gradient_at_ratio_one(forms: dict[str, Prepared]) -> None:
    for form in ("learned", "learned towards small"):
        weighting = forms[form].prepared.weighting
        assert weighting is not None
        assert float(jnp.abs(weighting.params.base).max()) > 0.1, form
