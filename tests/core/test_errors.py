"""The one kind of error a user sees."""

import pytest

from batchwright.core.errors import UserError, did_you_mean, unknown


def test_an_error_says_what_is_wrong_and_then_the_fixes() -> None:
    error = UserError("8 cannot hold 32.", ["--a 32", "--b 8"])
    assert str(error) == "8 cannot hold 32.\n  fix: --a 32   or   --b 8"
    assert error.to_json() == {"error": "8 cannot hold 32.", "fixes": ["--a 32", "--b 8"]}
    assert str(UserError("only this")) == "only this"


@pytest.mark.parametrize(
    ("word", "meant"), [("minibatchs", "minibatches"), ("NUM_ENVS", "num_envs"), ("rolout_steps", "rollout_steps")]
)
def test_the_nearest_name_comes_first(word: str, meant: str) -> None:
    assert did_you_mean(word, ["minibatches", "num_envs", "rollout_steps", "epochs"])[0] == meant


def test_a_name_unlike_any_other_shows_a_short_list_and_no_guess() -> None:
    error = unknown("colour", "zzzzzz", ["red", "blue"], "--colour")
    assert error.fixes == ("--colour blue", "--colour red")
    assert unknown("colour", "zzzzzz", [str(n) * 9 for n in range(30)]).fixes == ()
