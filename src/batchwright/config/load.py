"""Settings from presets, a YAML file and flags, merged in that order; every value keeps its origin."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from batchwright.config import aliases, foreign_settings, schema
from batchwright.config.foreign_files import foreign_entries
from batchwright.config.presets import (
    NO_PRESET,
    PresetNames,
    named_presets,
    read_preset,
    tuned_preset,
)
from batchwright.config.schema import FIELDS, SECTION_OF, SECTIONS, Config, flag_of
from batchwright.config.values import check
from batchwright.config.yaml_entries import Entry, construct_plain, yaml_part
from batchwright.core.errors import UserError, did_you_mean, quoted
from batchwright.core.safe_open import checked_path

# A settings file is a page long; anything larger is another kind of file given by mistake.
LARGEST_FILE_BYTES = 32_768
DEEPEST_NESTING = 8
LONGEST_WAIT_SECONDS = 5.0
MEASURED = "measured"


@dataclass(frozen=True)
class Origin:
    """Where a value came from: kind is flag, file, preset or measured; place is how a user finds it again."""

    kind: str
    place: str
    written_as: str = ""

    def __str__(self) -> str:
        return f"{self.place} ({self.written_as})" if self.written_as else self.place


Layered = tuple[Any, Origin]


@dataclass(frozen=True)
class Resolved:
    """The merged settings with their origins; `before_flags` is the same without the command line."""

    config: Config
    origins: Mapping[str, Origin] = field(default_factory=dict)
    presets: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    before_flags: Config = field(default_factory=Config)
    before_origins: Mapping[str, Origin] = field(default_factory=dict)

    def origin(self, name: str) -> Origin | None:
        return self.origins.get(name)


def resolve(
    flags: Mapping[str, Any] | None = None,
    preset: PresetNames = None,
    config_file: str | Path | None = None,
    content: bytes | None = None,
) -> Resolved:
    """Defaults < presets, later ones over earlier ones < file < flags; a file may name its presets itself.

    `content` is that of the file, where it was read already.
    """
    flags = {name: value for name, value in (flags or {}).items() if value is not None}
    entries = []
    if config_file is not None:
        path = checked_path(config_file)
        entries = _parse_entries(path, _read_file(path) if content is None else content, flags.get("env"))
    stated, of_file = named_presets(preset), _presets_of(entries, Path(config_file or ""))
    presets = of_file if stated is None else stated
    if presets is None and config_file is None:
        tuned = tuned_preset(flags.get("env"), flags.get("algo"))
        presets = (tuned,) if tuned else ()
    presets = presets or ()
    of_presets = {name: value for one in presets for name, value in read_preset(one).values.items()}
    regime = _guess_regime(flags, entries, of_presets)

    layers = [_from_preset(name) for name in presets]
    elsewhere = frozenset(flags) | frozenset(of_presets)
    of_file_notes: list[str] = []
    layers.append(_imply(_from_file(entries, Path(config_file or ""), regime, of_file_notes), regime, elsewhere))
    layers.append(_from_flags(flags, regime))

    merged: dict[str, Layered] = {}
    notes = of_file_notes
    if stated is not None and of_file and of_file != stated:
        notes.append(f"preset {' '.join(of_file)} of the file is replaced by --preset {' '.join(stated) or NO_PRESET}")
    notes += [text for name in presets for text in read_preset(name).corrections]
    before: dict[str, Layered] = {}
    for layer in layers:
        before = dict(merged)
        notes += _drop_replaced(merged, layer)
        merged |= layer
    origins = {name: origin for name, (_, origin) in merged.items()}
    before_origins = {name: origin for name, (_, origin) in before.items()}
    return Resolved(_build(merged), origins, presets, tuple(notes), _build(before), before_origins)


def with_measured(resolved: Resolved, values: Mapping[str, Any]) -> Resolved:
    """The settings with values that were measured on this machine, which nobody stated."""
    config = resolved.config
    for name, value in values.items():
        section = SECTION_OF[name]
        config = replace(config, **{section: replace(getattr(config, section), **{name: value})})
    origin = Origin(MEASURED, "measured on this machine")
    return replace(resolved, config=config, origins={**resolved.origins, **dict.fromkeys(values, origin)})


def _presets_of(entries: list[Entry], path: Path) -> tuple[str, ...] | None:
    """The presets that a file names; an unknown one is an error with its line."""
    found = [entry for entry in entries if entry.key.lower() == "preset"]
    if not found:
        return None
    if len(found) > 1:
        raise UserError(
            f"{path.name}:{found[1].line}: a second preset, after line {found[0].line}.",
            ["remove one of the two lines"],
        )
    try:
        return named_presets(found[0].value, files_too=False)  # a stranger's settings must not open files
    except UserError as error:
        raise UserError(f"{path.name}:{found[0].line}: {error.message}", error.fixes) from None


# Two names for one thing: stating the first on a later layer removes the others of earlier layers.
REPLACES = {
    "rollout_steps": ("rollout_episodes", "total_episodes"),
    "rollout_episodes": ("rollout_steps",),
    "minibatches": ("minibatch_transitions",),
    "minibatch_transitions": ("minibatches",),
    "entropy_anneal": ("entropy_episodes",),
    "entropy_episodes": ("entropy_anneal",),
    "total_steps": ("total_episodes",),
    "total_episodes": ("total_steps", "rollout_steps"),
}


def _drop_replaced(merged: dict[str, Layered], layer: Mapping[str, Layered]) -> list[str]:
    """Removes settings that a later layer replaces under another name; returns a note for each."""
    notes = []
    for name, (_, origin) in layer.items():
        for other in REPLACES.get(name, ()):
            if other in merged and other not in layer:
                value, was = merged.pop(other)
                notes.append(f"{other} {value} of {was} is replaced by {name} of {origin}")
    return notes


def _from_preset(preset: str) -> dict[str, Layered]:
    found = read_preset(preset)
    origin = Origin("preset", f"preset {found.name}")
    return {name: (check(name, raw, f"{origin}: {name}"), origin) for name, raw in found.values.items()}


def _from_flags(flags: Mapping[str, Any], regime: str) -> dict[str, Layered]:
    found: dict[str, Layered] = {}
    for written, raw in flags.items():
        for name, value in _ours(written, raw, regime).items():
            if name in found:
                raise UserError(f"{flag_of(written)} states {name} again.", [f"leave out {flag_of(written)}"])
            origin = Origin("flag", flag_of(name), "" if written == name else flag_of(written))
            found[name] = check(name, value, flag_of(written)), origin
    return found


def _ours(written: str, value: Any, regime: str) -> dict[str, Any]:
    """Our settings for a flag or keyword in our words or another library's."""
    if written in FIELDS:
        return {written: value}
    name = aliases.canonical(written, regime)
    if name is not None:
        return {name: value}
    try:
        converted = foreign_settings.convert(written, value, regime)
    except foreign_settings.NotCarried as why:
        raise UserError(f"{written} has no place here: {why}.", [f"leave out {written}"]) from None
    except ValueError:
        raise UserError(f"{written}: {str(value)[:40]!r} is not a number.") from None
    if converted is None:
        raise UserError(f"unknown option {written!r}.", aliases.our_names(written))
    return converted


def _build(merged: Mapping[str, Layered]) -> Config:
    """The frozen config of a flat mapping."""
    config = Config()
    for section in SECTIONS:
        mine = {name: value for name, (value, _) in merged.items() if SECTION_OF[name] == section}
        config = replace(config, **{section: replace(getattr(config, section), **mine)})
    return config


def _guess_regime(flags: Mapping[str, Any], entries: list[Entry], of_presets: Mapping[str, Any]) -> str:
    """The regime that decides what "batch_size" means, before the values are merged."""
    stated = dict(of_presets) | {entry.key.lower(): entry.value for entry in entries}
    stated |= flags
    if stated.get("data") is not None:
        return schema.RECORDED
    named = {aliases.ALIASES.get(key, key): value for key, value in stated.items()}
    only_replay = {
        "replay_transitions",
        "warmup_steps",
        "updates_per_iteration",
        "epsilon_share",
        "transitions_per_update",
    }
    if any(entry.form for entry in entries) and not stated.get("algo") and only_replay & set(named):
        return schema.REPLAY
    if any(mark in stated for mark in aliases.DATASET_MARKS) and "policy" not in stated:
        return schema.DATASET
    if any(mark in stated for mark in aliases.REPLAY_MARKS) and "algo" not in stated:
        return schema.REPLAY
    redistributes = bool(stated.get("redistribute"))
    return schema.regime_of(str(stated.get("algo")), stated.get("policy"), redistributes, stated.get("data"))


def _from_file(entries: list[Entry], path: Path, regime: str, notes: list[str]) -> dict[str, Layered]:
    """Checked values of a file under our names; a number stated twice is refused.

    What another library's file has and we do not is left out, with a note for each.
    """
    found: dict[str, Layered] = {}
    for entry in entries:
        place = f"{path.name}:{entry.line}"
        if entry.key.lower() == "preset" and entry.form is None:
            continue
        for name, value in _settings_of(entry, place, regime, notes).items():
            if name in found:
                raise UserError(
                    f"{place}: {entry.key} states {name} again, already stated at {found[name][1]}.",
                    [f"remove one of the two lines for {name}"],
                )
            written_as = entry.key if entry.key != name else ""
            found[name] = check(name, value, f"{place}: {entry.key}"), Origin("file", place, written_as)
    return found


def _settings_of(entry: Entry, place: str, regime: str, notes: list[str]) -> dict[str, Any]:
    """Our settings for one line of a file."""
    try:
        converted = foreign_settings.convert(entry.key, entry.value, regime, entry.form)
        if converted is not None:
            return converted
        name = aliases.canonical(entry.key, regime)
        if name is not None and not (entry.form is not None and regime not in FIELDS[name].metadata["regimes"]):
            return {name: entry.value}
        if entry.form is not None and not (name is None and entry.form == foreign_settings.SB3_KEYWORDS):
            raise foreign_settings.NotCarried("it is not known here" if name is None else f"{regime} has none")
    except foreign_settings.NotCarried as why:
        if entry.form is None:
            raise UserError(f"{place}: {entry.key} has no place here: {why}.", [f"remove {entry.key}"]) from None
        notes.append(f"{place}: {entry.key} of {entry.form} is not carried: {why}.")
        return {}
    except ValueError:
        raise UserError(f"{place}: {entry.key}: {str(entry.value)[:40]!r} is not a number.") from None
    close = aliases.our_names(entry.key)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    raise UserError(f"{place}: unknown key {quoted(entry.key)}.{hint}", close)


def _imply(found: dict[str, Layered], regime: str, elsewhere: frozenset[str]) -> dict[str, Layered]:
    """Adds the setting that selects the regime whose names a file uses."""
    rules: list[tuple[str, Any, str, tuple[str, ...]]] = [
        ("redistribute", "rrd", schema.REPLAY, ("rrd_timesteps_per_update", "subsequence_timesteps")),
        ("algo", "sac", schema.REPLAY, ("updates_per_iteration",)),
        ("policy", "act", schema.DATASET, ("workers", "accumulation")),
    ]
    for name, value, of_regime, marks in rules:
        mark = next((mark for mark in marks if mark in found), None)
        if regime == of_regime and mark is not None and name not in found and name not in elsewhere:
            origin = found[mark][1]
            found[name] = (value, Origin("file", origin.place, f"implied by {origin.written_as or mark}"))
    return found


def read_settings(content: bytes) -> dict[str, Any]:
    """The keys and values of `config.yaml`, unchecked, for those who only show them; `UserError` for damage."""
    return {entry.key: entry.value for entry in _parse_entries(Path("config.yaml"), content)}


def _read_file(path: Path) -> bytes:
    """The content of a settings file; a pipe, as the shell's <(...) gives one, is waited for a few seconds."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb", buffering=0) as file:
            is_pipe, content = stat.S_ISFIFO(os.fstat(file.fileno()).st_mode), b""
            while len(content) <= LARGEST_FILE_BYTES:
                if is_pipe and not select.select([file], [], [], LONGEST_WAIT_SECONDS)[0]:
                    raise ValueError(f"nothing came for {LONGEST_WAIT_SECONDS:g} s")
                part = file.read(LARGEST_FILE_BYTES + 1 - len(content))
                if not part:
                    break
                content += part
            return content
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UserError(f"cannot read {path}: {reason}.", ["--config FILE.yaml"]) from None


def _parse_entries(path: Path, content: bytes, env: str | None = None) -> list[Entry]:
    """The keys of a YAML file with their lines; sections only group. `env` chooses among entries by environment."""
    import yaml

    if len(content) > LARGEST_FILE_BYTES:
        raise UserError(f"{path} is larger than 32 KiB: not a file of settings.", ["--config FILE.yaml"])
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"cannot read {path}: {error}.", ["--config FILE.yaml"]) from None
    try:
        node = yaml.compose(yaml_part(text), Loader=_shallow_loader())
        empty = node is None or node.tag == "tag:yaml.org,2002:null"
        if empty:
            return []
        foreign = foreign_entries(node, path, env)
        return list(_walk(node, yaml.SafeLoader(""), path, depth=0)) if foreign is None else foreign
    except yaml.YAMLError as error:
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        line = f":{mark.line + 1}" if mark else ""
        problem = error.problem if isinstance(error, yaml.MarkedYAMLError) else None
        problem = problem or str(error).splitlines()[0]
        raise UserError(f"{path.name}{line}: not YAML: {problem}.") from None
    except (RecursionError, ValueError) as error:
        raise UserError(f"{path.name}: not readable as YAML settings: {error}.") from None


def _shallow_loader() -> Any:
    """The safe loader, stopped where nesting goes beyond anything that settings have."""
    import yaml

    class ShallowLoader(yaml.SafeLoader):
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.depth += 1
            if self.depth > DEEPEST_NESTING:
                mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
                raise yaml.MarkedYAMLError(problem="nested too deeply for settings", problem_mark=mark)
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return ShallowLoader


def _walk(node: Any, loader: Any, path: Path, depth: int) -> Iterator[Entry]:
    import yaml

    if not isinstance(node, yaml.MappingNode):
        raise UserError(
            f"{path.name}:{node.start_mark.line + 1}: settings are a mapping (key: value), not a {node.id}.",
            ["write lines such as   num_envs: 8"],
        )
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise UserError(f"{path.name}:{line}: a key must be a plain word.")
        key = str(key_node.value)
        if (
            depth == 0
            and isinstance(value_node, yaml.MappingNode)
            and key.lower() in (*SECTIONS, *aliases.FOREIGN_SECTIONS)
        ):
            yield from _walk(value_node, loader, path, depth + 1)
        elif isinstance(value_node, yaml.MappingNode):
            close = did_you_mean(key, (*SECTIONS, *aliases.FOREIGN_SECTIONS))
            raise UserError(f"{path.name}:{line}: unknown section {key!r}.", [f"{name}:" for name in close])
        else:
            yield Entry(key, construct_plain(value_node, loader, f"{path.name}:{line}: {key}"), line)
