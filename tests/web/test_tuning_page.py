"""A tuning on the page and in the report: every setting, what numbers did, and only files of the folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from records import line, make_run

from batchwright.core.errors import UserError
from batchwright.web.folder import Folder
from batchwright.web.report import write_report
from batchwright.web.server import Refused, Watcher
from batchwright.web.tuning_effects import effects, interactions

DEFAULTS = {"learning_rate": 1e-3, "gamma": 0.99, "baseline": True}


def unit(number: int, setting: dict[str, Any], score: float | None, phase: str = "B", seed: int = 0) -> dict[str, Any]:
    known = {"kind": "unit", "unit": number, "key": f"unit{number}", "phase": phase, "setting": setting, "seed": seed}
    result = {"score": score, "final": None, "env_steps": 100, "seconds": 1.5, "status": "finished", "reason": ""}
    return known | result | ({} if score is not None else {"status": "failed", "reason": "it raised"})


def make_tuning(folder: Path, finished: bool = True) -> Path:
    axis = {"name": "learning_rate", "values": [1e-4, 1e-3, 1e-2]}
    space = [{"letter": "B", "title": "stability", "how": "grid", "axes": [axis]}]
    header = {"kind": "header", "env": "CartPole-v1", "algo": "ppo", "defaults": DEFAULTS, "space": space}
    header |= {"unit_steps": 5120, "objective": "episode_return"}
    by_phase = {"default": 1, "B": 4, "search": 4, "judging": 20}
    forecast = {"kind": "forecast", "units": 29, "units_by_phase": by_phase, "steps": 148480, "seconds": 60.0}
    forecast |= {"within": 0.2, "workers": 1}
    lines = [header, forecast, unit(0, {}, 5.0, "default"), unit(1, {"learning_rate": 1e-2}, 9.0)]
    lines += [unit(2, {"learning_rate": 1e-4}, 1.0), unit(3, {"gamma": 0.9}, None)]
    decided = {"best": {"learning_rate": 1e-2}, "score": 9.0, "from": {}, "edges": ["learning_rate"]}
    lines.append({"kind": "decision", "phase": "B", **decided})
    for key in ("unit0", "unit1", "unit2"):
        make_run(folder / "units" / key, [line(at) for at in range(20)])
    if finished:
        final = {"winner": None, "reason": "no setting is better", "rows": []}
        lines.append({"kind": "decision", "phase": "judging", **final})
    (folder / "ledger.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return folder


def test_a_running_tuning_is_listed_and_described_with_all_its_settings(tmp_path: Path) -> None:
    make_tuning(tmp_path / "runs" / "mine", finished=False)
    watcher = Watcher(Folder(tmp_path / "runs"))
    state = watcher.state([], 64, True)
    assert [(row["name"], row["units"], row["most_units"], row["phase"]) for row in state["tunings"]] == [
        ("mine", 4, 29, "B")
    ]
    assert [run["name"] for run in state["runs"]] == ["mine/units/unit0", "mine/units/unit1", "mine/units/unit2"]
    found = watcher.tuning("mine")
    assert [(s["label"], s["score"]) for s in found["settings"]] == [
        ("default", 5.0),
        ("--learning-rate 0.01", 9.0),
        ("--learning-rate 0.0001", 1.0),
        ("--gamma 0.9", None),
    ]
    assert found["axes"] == ["learning_rate", "gamma"]
    assert [(phase["letter"], phase["units"]) for phase in found["phases"]] == [
        ("default", 1),
        ("B", 3),
        ("search", 0),
        ("judging", 0),
    ]
    assert "at the edge" in found["edges"][0] and found["verdict"] is None
    shutil.rmtree(tmp_path / "runs" / "mine" / "units" / "unit1")  # the ledger has its score
    assert watcher.tuning("mine")["settings"] == found["settings"]
    assert found["cost"]["failed"] == 1 and found["cost"]["seconds"] == 6.0


def test_a_tuning_named_by_itself_is_shown_alone(tmp_path: Path) -> None:
    make_tuning(tmp_path / "mine")
    make_run(tmp_path / "other", 3)
    assert Folder(tmp_path, only="mine").scan() == (
        ["mine/units/unit0", "mine/units/unit1", "mine/units/unit2"],
        ["mine"],
        0,
    )


def test_the_link_to_a_tuning_that_is_named_opens_its_page(tmp_path: Path) -> None:
    make_tuning(tmp_path / "mine")
    make_run(tmp_path / "other", 3)
    command = [sys.executable, "-m", "batchwright.cli", "watch", "--port", "0"]
    for name, page in (("mine", "#/tuning/mine"), ("other", "#/run/other")):
        process = subprocess.Popen([*command, str(tmp_path / name)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        process.terminate()
        process.communicate()
        assert link.endswith(page)


def test_a_ledger_that_is_a_link_or_damaged_is_not_shown(tmp_path: Path) -> None:
    runs, away = tmp_path / "runs", make_tuning(tmp_path / "away")
    (runs / "linked").mkdir(parents=True)
    (runs / "linked" / "ledger.jsonl").symlink_to(away / "ledger.jsonl")
    damaged = make_tuning(runs / "damaged")
    (damaged / "ledger.jsonl").write_text('{"kind": "header", "env": 3}\n{"kind": "unit"}\nnot json\n')
    watcher = Watcher(Folder(runs))
    assert [row["name"] for row in watcher.state([], 64, True)["tunings"]] == ["damaged"]
    for name in ("linked", "damaged", "nowhere"):
        with pytest.raises(Refused):
            watcher.tuning(name)
    with pytest.raises(UserError, match="damaged"):
        write_report([damaged])


def test_effects_are_means_over_all_units_with_a_value() -> None:
    units = [unit(0, {}, 1.0), unit(1, {"gamma": 0.9}, 5.0), unit(2, {"gamma": 0.9, "learning_rate": 1e-2}, 7.0)]
    gamma, rate = effects(units, DEFAULTS)
    assert (gamma["name"], gamma["range"]) == ("gamma", 5.0)  # 6 on average with 0.9, 1 with 0.99
    assert gamma["rows"][0] == ["0.9", 6.0, 5.0, 7.0, 2, [5.0, 7.0]]
    assert (rate["name"], rate["range"]) == ("learning_rate", 4.0)  # 7 with 1e-2, 3 on average with 1e-3


def test_numbers_interact_where_their_effects_do_not_add_up() -> None:
    corners: list[dict[str, Any]] = [{}, {"gamma": 0.9}, {"learning_rate": 1e-2}, {"gamma": 0.9, "learning_rate": 1e-2}]
    adding = [unit(at, corner, score) for at, (corner, score) in enumerate(zip(corners, [0, 1, 2, 3], strict=True))]
    assert interactions(adding, DEFAULTS)[0]["beyond"] == pytest.approx(0, abs=1e-9)
    # 0, 0, 0, 4: the best sum of effects is -1, 1, 1, 3, which is off by 1 everywhere.
    together = [unit(at, corner, score) for at, (corner, score) in enumerate(zip(corners, [0, 0, 0, 4], strict=True))]
    (pair,) = interactions(together, DEFAULTS)
    assert pair["names"] == ["learning_rate", "gamma"] and pair["beyond"] == pytest.approx(1.0)
    assert pair["cells"] == [[0.0, 0.0], [4.0, 0.0]] and pair["noise"] is None
    # One number after the other says nothing about both together.
    assert interactions(together[:3], DEFAULTS) == []
