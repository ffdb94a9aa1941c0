"""MuJoCo's warnings on the screen."""

import mujoco
import pytest

from batchwright.envs.gymnasium_source import EnvSource


def test_a_deprecated_attribute_of_gymnasiums_files_is_not_told(capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        EnvSource("HalfCheetah-v5").make()[0].close()
    assert "deprecated" not in "".join(capfd.readouterr())


def test_another_warning_is_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    EnvSource("HalfCheetah-v5").make()[0].close()
    for _ in range(3):
        mujoco.get_mju_user_warning()("the simulation is unstable")
        EnvSource("HalfCheetah-v5").make()[0].close()
    assert capfd.readouterr().err.count("unstable") == 1
