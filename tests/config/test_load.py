"""Wishes from presets, files and flags: every value knows where it came from."""

import dataclasses
from pathlib import Path

import pytest

from batchwright.config.load import LARGEST_FILE_BYTES, resolve
from batchwright.config.schema import FIELDS, SECTIONS
from batchwright.core.errors import UserError
from run_batchwright import plan, refusal


@pytest.fixture
def write(tmp_path: Path):
    def writer(text: str, name: str = "mine.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return writer


def origins(found) -> dict[str, str]:
    return {name: quantity.origin for name, quantity in found.quantities.items()}


def test_the_batch_training_document_loads_in_its_own_words(write) -> None:
    file = write(
        "trainer:\n  rollout_batch_size: 10\n  update_epochs: 4\n  minibatch_size: 64\n  total_episodes: 1000\n"
    )
    found = plan(config=file)
    assert [found[n] for n in ("rollout_episodes", "epochs", "minibatch_transitions", "total_episodes")] == [
        10,
        4,
        64,
        1000,
    ]
    assert origins(found)["rollout_episodes"] == "mine.yaml:2 (rollout_batch_size)"
    assert origins(found)["total_episodes"] == "mine.yaml:5"
    assert "mine.yaml:4 (minibatch_size)" in found.explain()


def test_the_same_document_in_one_line_loads_too(write) -> None:
    file = write("trainer: {rollout_batch_size: 10, update_epochs: 4, minibatch_size: 64, total_episodes: 1000}\n")
    assert plan(config=file)["rollout_episodes"] == 10


def test_the_replay_document_loads_in_its_own_words(write) -> None:
    file = write("TRAIN_BATCHES: 64\nBATCH_SIZE: 32\nRRD_BATCH_SIZE: 64\nRRD_SAMPLE_SIZE: 32\n")
    found = plan(config=file)
    assert found.algo == "sac"
    assert found["updates_per_iteration"] == 64
    assert found["transitions_per_update"] == 32
    assert found["subsequences_per_update"] == 2
    assert origins(found)["transitions_per_update"] == "mine.yaml:2 (BATCH_SIZE)"
    assert "implied by RRD_BATCH_SIZE" in origins(found)["redistribute"]


def test_the_rl_games_words_load(write) -> None:
    file = write("num_actors: 2048\nhorizon_length: 16\nmini_epochs: 8\nminibatch_size: 8192\n")
    found = plan(config=file, trainer="rl_games")
    assert [found[n] for n in ("num_envs", "rollout_steps", "epochs", "minibatches")] == [2048, 16, 8, 4]


def test_the_stable_baselines_words_load(write) -> None:
    found = plan(config=write("n_envs: 8\nn_steps: 256\nn_epochs: 10\nbatch_size: 64\ntotal_timesteps: 9000\n"))
    assert found["minibatch_transitions"] == 64
    assert found["total_steps"] == 9000


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("batch_size: 32", "minibatch_transitions"),
        ("algo: dqn\nbatch_size: 32", "transitions_per_update"),
        ("preset: mujoco\nbatch_size: 32", "transitions_per_update"),
        ("policy: act\nbatch_size: 32", "samples_per_step"),
    ],
)
def test_batch_size_means_what_the_regime_makes_of_it(write, file: str, name: str) -> None:
    found = plan(config=write(file))
    assert found[name] == 32
    assert "(batch_size)" in origins(found)[name]


def test_later_layers_win_and_each_value_tells_its_layer(write) -> None:
    found = plan(preset="balanced", config=write("\nepochs: 5\nrollout_episodes: 6\n"), rollout_episodes=7)
    assert origins(found)["minibatch_transitions"] == "preset balanced"
    assert origins(found)["epochs"] == "mine.yaml:2"
    assert origins(found)["rollout_episodes"] == "--rollout-episodes"
    assert origins(found)["learning_rate"] == "default"
    assert [found[n] for n in ("minibatch_transitions", "epochs", "rollout_episodes")] == [64, 5, 7]
    sources = {name: found.quantities[name].source for name in ("minibatch_transitions", "epochs", "learning_rate")}
    assert sources == {"minibatch_transitions": "preset", "epochs": "pinned", "learning_rate": "derived"}


def test_a_file_may_name_its_preset_and_a_flag_replaces_it_aloud(write) -> None:
    file = write("preset: balanced\nepochs: 5\n")
    assert plan(config=file)["rollout_episodes"] == 10
    other = plan(config=file, preset="debug")
    assert other["rollout_episodes"] == 3
    assert "preset balanced of the file is replaced by --preset debug" in other.warnings[0]


@pytest.mark.parametrize(
    "names", [("balanced", "entropy-short"), ["balanced", "entropy-short"], "balanced,entropy-short"]
)
def test_presets_combine_and_each_number_tells_which_gave_it(names) -> None:
    found = origins(plan(preset=names))
    assert found["rollout_episodes"] == found["minibatch_transitions"] == "preset balanced"
    assert found["entropy_start"] == found["entropy_episodes"] == "preset entropy-short"


def test_of_several_presets_the_later_one_wins_under_either_name_of_a_number(write) -> None:
    """balanced: 10 episodes per rollout, 4 epochs; fast: 5 and 2; discrete: rollouts of steps."""
    fast_last, fast_first = plan(preset=("balanced", "fast")), plan(preset=("fast", "balanced"))
    assert [fast_last[n] for n in ("rollout_episodes", "epochs", "total_episodes")] == [5, 2, 100]
    assert [fast_first[n] for n in ("rollout_episodes", "epochs", "total_episodes")] == [10, 4, 1000]
    steps = plan(config=write("preset: [balanced, discrete]\n"))
    assert steps["rollout_steps"] == 256
    assert "rollout_episodes" not in steps.quantities
    assert "rollout_episodes 10 of preset balanced is replaced by rollout_steps of preset discrete" in steps.warnings


def test_steps_on_a_later_layer_replace_episodes_of_an_earlier_one_aloud() -> None:
    found = plan(preset="balanced", rollout_steps=64)
    assert "rollout_episodes" not in found.quantities
    assert any("rollout_episodes 10 of preset balanced is replaced" in warning for warning in found.warnings)


def test_sections_only_group(write) -> None:
    flat, grouped = write("num_envs: 3\nepochs: 2\n", "a.yaml"), write("experience:\n  num_envs: 3\n  epochs: 2\n")
    assert resolve(config_file=flat).config == resolve(config_file=grouped).config


def test_every_field_can_be_written_in_a_file_in_its_section(write) -> None:
    samples = {int: 20, float: 0.5, bool: True, str: "x", tuple: [3, 4]}
    from batchwright.config.values import is_names, kind_of

    for section, cls in SECTIONS.items():
        for field in dataclasses.fields(cls):
            sample = ["large", "small"] if is_names(field.name) else samples[kind_of(field.name)]
            value = (field.metadata["choices"] or [sample])[0]
            file = write(f"{section}:\n  {field.name}: {value}\n")
            found = resolve(config_file=file)
            assert found.origins[field.name].place == "mine.yaml:2"
            assert found.config.get(field.name) == (tuple(value) if isinstance(value, list) else value)


def test_every_field_tells_what_it_is() -> None:
    for name, field in FIELDS.items():
        assert len(field.metadata["help"]) > 10, name
        assert field.default is None


def test_an_empty_file_wishes_nothing(write) -> None:
    for text in ("", "---\n", "# nothing\n"):
        assert resolve(config_file=write(text)).config == resolve().config


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("num_env: 3", "mine.yaml:1: unknown key 'num_env'. Did you mean num_envs"),
        ("epochs: 1\nminibatchs: 3", "mine.yaml:2: unknown key 'minibatchs'. Did you mean minibatches"),
        ("trainer:\n  rolout_batch_size: 3", "mine.yaml:2: unknown key"),
        (
            "epochs: 1\nupdate_epochs: 2",
            "mine.yaml:2: update_epochs states epochs again, already stated at mine.yaml:1",
        ),
        ("epochs: 1\nepochs: 2", "states epochs again"),
        ("preset: fast\npreset: debug", "mine.yaml:2: a second preset"),
        ("- 1\n- 2", "mine.yaml:1: settings are a mapping"),
        ("just words", "settings are a mapping"),
        ("42", "settings are a mapping"),
        ("num_envs: [1, 2]", "mine.yaml:1: num_envs: [1, 2] is not a number"),
        ("num_envs: true", "True is not a number"),
        ("num_envs: eight", "'eight' is not a number"),
        ("num_envs:", "a value is needed"),
        ("num_envs: {a: 1}", "unknown section 'num_envs'"),
        ("experiance: {num_envs: 1}", "unknown section 'experiance'"),
        ("num_envs: 0", "0 is out of range; at least 1"),
        ("num_envs: -3", "-3 is out of range"),
        ("num_envs: 2.5", "2.5 is not a whole number"),
        ("num_envs: .nan", "not a finite number"),
        ("num_envs: .inf", "not a finite number"),
        ("num_envs: 1e400", "not a finite number"),
        ("num_envs: " + "9" * 400, "bits is out of range"),
        ("num_envs: 0x" + "f" * 5000, "bits is out of range"),
        ("env: 0x" + "f" * 5000, "bits is out of range"),
        ("num_envs: " + "9" * 5000, "not readable"),
        ("store_next_obs: maybe", "neither true nor false"),
        ("store_next_obs: [true]", "neither true nor false"),
        ("algo: poo", "unknown algo 'poo'"),
        ("algo: [ppo]", "a name is needed"),
        ("dataset: !!binary aGk=", "a name is needed"),
        ("dataset: ''", "the name is empty"),
        ("obs_shape: []", "not a shape"),
        ("obs_shape: [3, x]", "'x' is not a number"),
        ("obs_shape: [1, 2, 3, 4, 5, 6, 7, 8, 9]", "not a shape of 1 to 8 sides"),
        ("num_envs: [[1], [2]]", "plain values only"),
        ("gamma: 1.5", "1.5 is out of range; at most 1.0"),
        ("num_envs: !!bool maybe", "mine.yaml:1: num_envs: 'maybe' is not readable"),
        ("num_envs: !!timestamp foo", "not readable"),
        ("num_envs: 2020-13-40", "not readable"),
        ("num_envs: !!int ''", "not readable"),
        ("num_envs: !!python/object:os.system x", "mine.yaml:1: not YAML"),
        ("num_envs: *nobody", "mine.yaml:1: not YAML"),
        ("a: [1", "not YAML"),
        ("a: 1\n b: 2", "not YAML"),
        ("--- 1\n--- 2", "not YAML"),
        ("? [a, b]\n: 1", "a key must be a plain word"),
        ("<<: {num_envs: 1}", "unknown section '<<'"),
        ("[" * 30_000, "nested too deeply"),
        ("task:\n" + "".join(" " * n + "a:\n" for n in range(1, 200)), "nested too deeply"),
        ("\x07", "not YAML"),
        ("preset: nobody", "unknown preset 'nobody'"),
        ("preset: [fast, fats]", "unknown preset"),
    ],
)
def test_a_bad_file_is_told_with_its_line(write, text: str, said: str) -> None:
    answer = refusal(f"plan --config {write(text)}")
    assert said in answer.err


def test_nested_anchors_cannot_blow_up(write) -> None:
    lists = ", ".join(f"&a{i} [{', '.join([f'*a{i - 1}'] * 9 if i else ['x'] * 9)}]" for i in range(12))
    merges = ", ".join(f"&m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 9)}]}}" if i else "&m0 {k: 1}" for i in range(12))
    for text in (f"num_envs: [{lists}]", f"num_envs: [{merges}]", f"env: [{lists}]", "num_envs: &a [*a]"):
        refusal(f"plan --config {write(text)}")


def test_anchors_of_plain_values_work(write) -> None:
    assert plan(config=write("num_envs: &n 12\nepochs: *n\n"))["epochs"] == 12


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: folder / "nobody.yaml", "No such file"),
        (lambda folder: folder, "Is a directory"),
        (lambda folder: Path("/dev/zero"), "larger than 32 KiB"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, make, said: str) -> None:
    assert said in refusal(f"plan --config {make(tmp_path)}").err


def test_a_file_that_is_no_text_or_too_long_is_told(tmp_path: Path) -> None:
    file = tmp_path / "bytes.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    refusal(f"plan --config {file}")
    file.write_text("#" * (LARGEST_FILE_BYTES + 1))
    assert "32 KiB" in refusal(f"plan --config {file}").err


def test_python_callers_get_the_same_rules() -> None:
    for options in ({"num_envs": 0}, {"num_envs": "x"}, {"num_enves": 3}, {"preset": ""}, {"trainer": "torch"}):
        with pytest.raises(UserError):
            plan(**options)
    assert plan(num_envs="12", obs_shape=(3, 4))["num_envs"] == 12


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        resolve().config.experience.num_envs = 3  # type: ignore[misc]
