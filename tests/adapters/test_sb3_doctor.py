"""The doctor beside Stable-Baselines3; needs it, which the peers' environment has."""

from __future__ import annotations

import pytest

stable_baselines3 = pytest.importorskip("stable_baselines3")


def test_a_huge_learning_rate_is_told_in_its_own_words() -> None:
    from batchwright.adapters.sb3_doctor import DoctorCallback

    said: list[str] = []
    doctor = DoctorCallback(said.append)
    model = stable_baselines3.PPO(
        "MlpPolicy", "CartPole-v1", n_steps=128, batch_size=64, n_epochs=2, learning_rate=0.1, device="cpu"
    )
    model.learn(128 * 12, callback=doctor)
    assert doctor.findings[0].name == "learning-rate-too-high"
    assert doctor.findings[0].flags[0] == "learning_rate=0.0003"
    assert said[0].startswith("doctor: learning-rate-too-high")
