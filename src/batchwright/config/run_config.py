"""The settings of a run directory, read without its plan."""

from __future__ import annotations

from batchwright.config.load import Resolved, resolve
from batchwright.core.errors import UserError
from batchwright.core.run_dir import RunDir
from batchwright.core.safe_open import read_plain


def read_run_config(run: RunDir) -> Resolved:
    """The settings as they were written; OSError where the file cannot be opened."""
    try:
        content = read_plain(run.config_path)
    except ValueError as error:
        raise UserError(f"{run.config_path} is damaged: {error}.", ["train anew in another --run-dir"]) from None
    return resolve(config_file=run.config_path, content=content)
