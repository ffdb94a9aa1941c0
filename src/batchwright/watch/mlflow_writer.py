"""MLflow, into the run directory unless MLFLOW_TRACKING_URI is set. The only file that imports mlflow."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batchwright.core.errors import missing_package
from batchwright.watch.json_lines import numbers_of
from batchwright.watch.metric_groups import STEP, grouped

SEND_EVERY_SECONDS = 5.0
MOST_METRICS, MOST_PARAMS, LONGEST_PARAM = 1000, 100, 500
"""What MLflow takes in one request, and of one parameter."""
DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_ALLOW_FILE_STORE": "true",
}
"""MLflow waits minutes for a server that is down, and a run would wait with it; files in a folder need its leave since
version 3. What the user has set stays."""


class MlflowWriter:
    """Logs all metrics over environment steps, and the numbers of the plan as parameters.

    Records are sent together every few seconds: a server far away does not slow each iteration.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        for name, value in DEFAULTS.items():
            os.environ.setdefault(name, value)
        try:
            from mlflow.entities import Metric, Param
            from mlflow.tracking import MlflowClient
        except ImportError as error:
            raise missing_package("mlflow-skinny", "mlflow") from error
        self._metric = Metric
        place = os.environ.get("MLFLOW_TRACKING_URI") or (folder / "mlflow").resolve().as_uri()
        self._client: Any = MlflowClient(place)
        name = folder.resolve().name
        run = self._client.create_run(
            self._experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", "batchwright")),
            run_name=name,
            tags={"run_directory": str(folder.resolve())},
        )
        self._run: str = run.info.run_id
        params = [Param(key, str(value)[:LONGEST_PARAM]) for key, value in settings.items()]
        for start in range(0, len(params), MOST_PARAMS):
            self._client.log_batch(self._run, params=params[start : start + MOST_PARAMS])
        self._waiting: list[Any] = []
        self._next_send = time.monotonic() + SEND_EVERY_SECONDS

    def _experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        return str(found.experiment_id if found is not None else self._client.create_experiment(name))

    def write(self, record: Mapping[str, Any]) -> None:
        numbers, now = numbers_of(record), int(1000 * time.time())
        step = int(numbers[STEP])
        named = grouped(numbers).items()
        self._waiting += [self._metric(allowed_name(name), value, now, step) for name, value in named]
        if time.monotonic() >= self._next_send:
            self._send()

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), MOST_METRICS):
            self._client.log_batch(self._run, metrics=waiting[start : start + MOST_METRICS])
        self._next_send = time.monotonic() + SEND_EVERY_SECONDS

    def close(self) -> None:
        self._send()
        self._client.set_terminated(self._run)


def allowed_name(name: str) -> str:
    """A name that MLflow takes: letters, digits and `_-./ :`; anything else becomes an underscore."""
    return re.sub(r"[^A-Za-z0-9_\-./ :]", "_", name)
