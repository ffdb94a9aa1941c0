"""The report: one file that needs nothing else, figures per run and over seeds."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from records import ADVICE, event, line, make_run
from records import plan as plan_record

import batchwright
from batchwright.core.errors import UserError
from batchwright.planning.plan import plan_from_dict
from batchwright.web.figures import figures_of
from batchwright.web.groups import group_runs, median_curves, scores
from batchwright.web.picture import picture
from batchwright.web.report import read_run, write_report


def data_of(path: Path) -> dict[str, Any]:
    """What the page is drawn from."""
    found = re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)
    assert found
    return json.loads(found[1])  # type: ignore[no-any-return]


def seeds(folder: Path, returns: list[float], **of_plan: Any) -> list[Path]:
    """Runs that differ in the seed; each ends at its own return and evaluates twice to it."""
    return [
        make_run(
            folder / f"s{seed}",
            [line(i, episode_return=value) for i in range(20)],
            events=[event("evaluation", 19, returns=[value - 1, value + 1])],
            seed=seed,
            **of_plan,
        )
        for seed, value in enumerate(returns)
    ]


def test_one_file_that_loads_nothing(tmp_path: Path) -> None:
    out = write_report([make_run(tmp_path / "run", events=[ADVICE])])
    assert out == tmp_path / "run" / "report.html"
    text = out.read_text()
    assert not re.search(r'(src|href)="(?!data:)', text)
    assert "@import" not in text
    assert "url(" not in re.sub(r"url\(#\$\{clip\}\)", "", text), "only clip paths of the page itself"
    assert len(text) < 250_000
    # The policy of the page allows its own script and style, by their hashes, and nothing else.
    for tag in ("script", "style"):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert body
        digest = base64.b64encode(hashlib.sha256(body[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in text
    assert data_of(out)["runs"][0]["advice"][0]["flags"] == ["--entropy-start 0.01"]


def test_the_report_has_the_findings_of_the_doctor(tmp_path: Path) -> None:
    broken = [event("non-finite", 3, "reward[0] of environment 2 is nan"), event("diverged", 5, "training diverged")]
    run = make_run(tmp_path / "run", [line(i, entropy=0.69) for i in range(6)], events=broken)
    first = data_of(write_report([run]))["runs"][0]["findings"][0]
    assert first["finding"] == "nan-from-environment"
    assert first["severity"] == "danger"
    assert "reward[0] of environment 2 is nan" in first["message"]


def test_advice_is_split_into_parts_without_repetition(tmp_path: Path) -> None:
    text = "stuck: no gain in 50 iterations. Likely cause: the rate is low. Try: --learning-rate 0.001"
    advice = event("advice", 7, text, finding="stuck", evidence={"gain": 0.012345678, "window": 50}, flags=["--a 1"])
    (found,) = data_of(write_report([make_run(tmp_path / "run", 3, events=[advice])]))["runs"][0]["advice"]
    assert found["message"] == "no gain in 50 iterations."
    assert found["evidence"] == "gain 0.01235, window 50"


def test_markup_in_names_stays_data(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    run = make_run(
        tmp_path / "<b>run",
        [line(0, **{evil: 1.0})],
        env=evil,
        events=[event("advice", 0, evil, flags=[evil]), event(evil, 0, evil)],
    )
    text = write_report([run]).read_text()
    assert evil not in text
    assert text.count("<script") == 2
    assert "<img" not in text
    assert "<title>&lt;b&gt;run: report</title>" in text


def test_a_report_of_a_record_that_is_broken_is_written_with_notes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 3)
    (run / "plan.json").write_text("{")
    (run / "metrics.jsonl").write_bytes(b'{"iteration": 0, "loss": 1}\ntorn')
    notes = " ".join(data_of(write_report([run]))["runs"][0]["summary"]["notes"])
    assert "plan.json" in notes
    assert "the last line is incomplete" in notes


def test_videos_are_in_the_file_unless_they_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchwright.web.report.MOST_VIDEO_BYTES", 100)
    run = make_run(tmp_path / "run", 2)
    (run / "a.gif").write_bytes(b"GIF89a")
    (run / "large.gif").write_bytes(bytes(101))
    found = data_of(write_report([run]))["runs"][0]
    assert [(video["file"], video["data"]) for video in found["embedded"]] == [
        ("a.gif", "data:image/gif;base64,R0lGODlh")
    ]
    assert "too large for the report: large.gif." in " ".join(found["summary"]["notes"])


def test_runs_that_differ_in_the_seed_alone_are_one_setting(tmp_path: Path) -> None:
    runs = seeds(tmp_path / "a", [1.0, 2.0], learning_rate=0.1) + seeds(tmp_path / "b", [3.0], learning_rate=0.2)
    found = data_of(write_report(runs, tmp_path / "r.html"))
    assert [(group["label"], len(group["scores"])) for group in found["groups"]] == [
        ("learning_rate 0.1", 2),
        ("learning_rate 0.2", 1),
    ]
    assert found["differing"]["rows"] == [["learning_rate", "0.1", "0.2"]]
    assert found["title"] == "CartPole-v1: 3 runs of 2 settings"


def test_the_median_and_the_band_of_seeds_are_those_of_their_curves(tmp_path: Path) -> None:
    runs = [read_run(run) for run in seeds(tmp_path, [0.0, 10.0, 20.0, 30.0, 100.0])]
    found = median_curves(runs)
    # Of 0, 10, 20, 30, 100: the median is 20, the quartiles are 10 and 30.
    assert found["band"] == "quartiles"
    assert set(found["mean"]["episode_return"]) == {20.0}
    assert set(found["low"]["episode_return"]) == {10.0}
    assert set(found["high"]["episode_return"]) == {30.0}


def test_the_score_of_seeds_is_the_iqm_of_their_last_evaluations(tmp_path: Path) -> None:
    found = scores([read_run(run) for run in seeds(tmp_path, [0.0, 10.0, 20.0, 30.0, 100.0])])
    assert [entry["score"] for entry in found["scores"]] == [0.0, 10.0, 20.0, 30.0, 100.0]
    # A quarter of five runs, rounded down, is one: without 0 and 100 the mean is 20.
    assert (found["median"], found["iqm"]) == (20.0, 20.0)
    low, high = found["iqm_interval"]
    assert low < 20.0 < high


def test_a_run_that_stopped_early_leaves_the_median_to_the_others(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"s{i}", length, seed=i) for i, length in enumerate((20, 20, 10))]
    found = median_curves([read_run(run) for run in runs])
    steps, returns = found["axes"]["env_steps"], found["mean"]["episode_return"]
    # All runs have the return 10 i at step 256 (i + 1), so that the median does too.
    assert returns[-1] == 190.0
    assert all(abs(value - 10 * (step / 256 - 1)) < 0.01 for step, value in zip(steps, returns, strict=True))


def test_every_metric_is_in_one_figure() -> None:
    names = ["episode_return", "episode_return_std", "kl", "kl/move", "entropy", "entropy/move", "own_metric"]
    names += ["component/speed/return", "component/energy/return", "component/speed/weight", "critic_loss"]
    names += ["agent/red/return", "agent/blue/return", "agent/red/eval_mean"]
    drawn = [line.metric for figure in figures_of(names) for line in figure.lines]
    assert sorted(drawn) == sorted(name for name in names if name != "episode_return_std")
    titles = {figure.title: [line.label for line in figure.lines] for figure in figures_of(names)}
    assert titles["KL"] == ["all heads", "move"]
    assert titles["Return by component"] == ["speed", "energy"]
    assert titles["Return by agent"] == ["red", "blue"]
    assert titles["own_metric"] == ["own_metric"]


def test_the_picture_has_the_numbers_of_the_terminals() -> None:
    record = plan_record()
    found = picture(record)
    assert found
    shown = " ".join(part for stage in found["stages"] for part in stage["lines"])
    text = plan_from_dict(record).diagram()
    for part in ("8 envs x 32 steps", "256 transitions", "4 minibatches of 64", "8 optimiser steps"):
        assert part in shown
        assert part in text
    assert [stage.get("cells") for stage in found["stages"]] == [None, 4, 8]


def test_the_picture_shows_sequences_and_processes_as_the_terminal_does() -> None:
    made = batchwright.plan(memory="gru", seq_length=8, processes=2, num_envs=8, rollout_steps=32)
    found = picture(json.loads(made.to_json()))
    assert found
    collect, minibatches, update = (stage["lines"] for stage in found["stages"])
    text = made.diagram()
    assert "in 2 processes" in collect and "2 processes with 4 envs each" in text
    assert "whole sequences of 8 steps" in minibatches and "whole sequences of 8 steps" in text
    assert "gradients averaged" in update and "gradients are averaged over processes" in text


def test_near_equal_minibatches_are_drawn_with_both_sizes() -> None:
    found = picture(plan_record(rollout_transitions=250, minibatch_transitions=63))
    assert found
    assert found["stages"][1]["lines"][0] == "4 minibatches of 62-63"


def test_the_picture_of_whole_episodes_has_the_plan_at_full_length_and_what_was_collected(tmp_path: Path) -> None:
    """5,000 transitions in minibatches of about 64 are 8 x 65 + 70 x 64, as the plan says."""
    made = batchwright.plan(preset="balanced", episode_steps=500)
    assert "minibatches of about 64 (at full length 78 of 64-65)" in made.diagram()
    record = json.loads(made.to_json())
    lines = [line(k, transitions=total) for k, total in enumerate((237, 500, 1500))]
    folder = make_run(tmp_path / "run", lines)
    (folder / "plan.json").write_text(json.dumps(record))
    collect, minibatches, update = data_of(write_report([folder]))["runs"][0]["picture"]["stages"]
    assert collect["lines"] == [
        "10 episodes from 8 envs",
        "at most 5,000 transitions",
        "so far 237 to 1,000 per rollout",
    ]
    assert minibatches["lines"][:2] == ["minibatches of about 64", "at full length 78 of 64-65"]
    assert update["lines"][0] == "at most 312 optimiser steps"


def test_automatic_minibatches_of_whole_episodes_are_a_share_of_what_was_collected() -> None:
    made = batchwright.plan(rollout_episodes=10, episode_steps=500)
    found = picture(json.loads(made.to_json()))
    assert found
    assert found["stages"][1]["lines"][:2] == [
        "minibatches of 1/32 of the rollout (64 below 2,048 transitions)",
        "at full length 32 of 156-157",
    ]
    assert "1/32 of the rollout (64 below 2,048 transitions)" in made.diagram()
    unknown = picture(json.loads(batchwright.plan(rollout_episodes=10).to_json()))
    assert unknown
    assert "?" not in " ".join(part for stage in unknown["stages"] for part in stage["lines"])


@pytest.mark.parametrize("record", [{}, {"regime": "on-policy"}, {"regime": "on-policy", "quantities": {"epochs": {}}}])
def test_a_damaged_plan_has_a_picture_or_none(record: dict[str, Any]) -> None:
    found = picture(record)
    assert found is None or "? " in " ".join(found["stages"][0]["lines"])


def test_a_path_that_is_not_a_run_is_refused_with_the_nearest(tmp_path: Path) -> None:
    make_run(tmp_path / "cartpole", 1)
    with pytest.raises(UserError, match="is not a run directory") as refused:
        write_report([tmp_path / "cartpol"])
    assert refused.value.fixes == (str(tmp_path / "cartpole"),)
    with pytest.raises(UserError, match="is a directory"):
        write_report([tmp_path / "cartpole"], tmp_path)
    with pytest.raises(UserError, match="needs an output file"):
        write_report([tmp_path / "cartpole", make_run(tmp_path / "other", 1)])


def test_runs_with_the_same_name_are_distinguished_by_their_folders(tmp_path: Path) -> None:
    runs = seeds(tmp_path / "a", [1.0]) + seeds(tmp_path / "b", [2.0])
    found = data_of(write_report([*runs, runs[0]], tmp_path / "r.html"))
    assert [run["summary"]["name"] for run in found["runs"]] == ["a/s0", "b/s0"]


def test_groups_keep_the_order_in_which_runs_were_named(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / str(rate), 2, learning_rate=rate) for rate in (0.3, 0.1)]
    assert [group.label for group in group_runs([read_run(run) for run in runs])] == [
        "learning_rate 0.3",
        "learning_rate 0.1",
    ]


@pytest.mark.parametrize("name", ["mine.py", "notes.html", "data.htm"])
def test_a_file_that_is_no_report_of_ours_is_never_replaced(tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path / "run")
    (tmp_path / name).write_text("<!doctype html>\n<p>mine</p>\n")
    with pytest.raises(UserError, match=r"no name of an HTML page|is not a report of Batchwright"):
        write_report([run], tmp_path / name)
    assert (tmp_path / name).read_text() == "<!doctype html>\n<p>mine</p>\n"


def test_a_report_replaces_a_report_and_an_empty_file(tmp_path: Path) -> None:
    run, target = make_run(tmp_path / "run"), tmp_path / "page.html"
    target.touch()
    (tmp_path / ".page.html.99999999-0.tmp").write_bytes(b"left by a kill")
    for _ in range(2):
        write_report([run], target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "run"]


def test_a_link_in_place_of_the_report_is_replaced_and_not_followed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (tmp_path / "mine.html").write_text("mine")
    (run / "report.html").symlink_to(tmp_path / "mine.html")
    write_report([run])
    assert (tmp_path / "mine.html").read_text() == "mine"
    assert (run / "report.html").read_text() != "mine"
