"""The processes of one training on a Ray cluster: one for each CPU or GPU that a placement group has reserved.

Process 0 runs on the machine that the command was called on, which is a node of the cluster: the run directory lies
there. The others are started by actors on their nodes, spread over them; a dead actor or node is a dead process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from batchwright.core.errors import UserError
from batchwright.planning.quantity import counted
from batchwright.runs.ray_cluster import in_bundle, join_cluster
from batchwright.runs.start_processes import ERRORS, LOST, NATIVE_LOG, ProcessPlace, end_child, run_processes, start
from batchwright.runs.versions import other_versions, versions

PLACE_SECONDS = 60.0
"""How long the cluster has to give room to all processes."""
ON_NODE = 0.001
"""Of the resource that Ray gives each node under its address: asks for that node."""
VISIBLE = "CUDA_VISIBLE_DEVICES"


class Member:
    """An actor of Ray in the place of one process: starts it on its node and waits for it."""

    def about(self) -> dict[str, Any]:
        return {"host": socket.gethostname(), "versions": versions(), "devices": os.environ.get(VISIBLE)}

    def train(self, words: Sequence[str], place: ProcessPlace, number: int, called_in: str) -> dict[str, Any]:
        """Runs a command as one of several processes to its end: its exit code, and what it wrote."""
        with contextlib.suppress(OSError):  # environments in files may be named from there
            os.chdir(called_in)
        folder = Path(tempfile.mkdtemp(prefix="batchwright-process-"))
        child = start(words, place, number, folder)
        try:
            code = child.wait()
            logs = {name: folder / name.format(number) for name in (ERRORS, NATIVE_LOG)}
            return {"code": code, "logs": {name: log.read_bytes() for name, log in logs.items() if log.exists()}}
        finally:
            end_child(child)
            shutil.rmtree(folder, ignore_errors=True)


class RayProcess:
    """A process of a training on a node of the cluster, with the methods of `subprocess.Popen` that watching needs."""

    stdin = None

    def __init__(self, ray: Any, actor: Any, node: str) -> None:
        self._ray, self._actor, self._node = ray, actor, node
        self._task: Any = None
        self._number, self._folder, self._code = 0, Path(), dict[str, int]()

    def start(self, words: Sequence[str], place: ProcessPlace, number: int, folder: Path) -> None:
        self._number, self._folder = number, folder
        self._task = self._actor.train.remote(list(words), place, number, str(Path.cwd()))

    def poll(self) -> int | None:
        """The exit code; `LOST` where the actor or its node has died, None while the process runs."""
        if "code" not in self._code and self._ray.wait([self._task], timeout=0)[0]:
            try:
                answer = self._ray.get(self._task)
            except self._ray.exceptions.RayError as error:
                said = f"its node {self._node} or its actor died: {type(error).__name__}"
                answer = {"code": LOST, "logs": {ERRORS: said.encode()}}
            for name, content in answer["logs"].items():
                (self._folder / name.format(self._number)).write_bytes(content)
            self._code["code"] = answer["code"]
        return self._code.get("code")

    def kill(self) -> None:
        """Ends the actor; its process ends when its input closes."""
        self._ray.kill(self._actor)

    def wait(self) -> int:
        return LOST

    def send_signal(self, number: int) -> None:
        """Nothing: process 0 takes Ctrl-C and SIGTERM, and all agree on the iteration to stop after."""


def run_on_ray(words: Sequence[str], processes: int, address: str | None) -> None:
    """Runs a command in so many processes on a Ray cluster, to their end; raises `ProcessesFailed` where one fails."""
    if address is not None and address.startswith("ray://"):
        raise UserError(
            f"--address {address[:80]} is a client's way into a cluster from outside; process 0 runs in this command "
            "and must be reached by the others.",
            ["call it on a node of the cluster, with --address HOST:6379"],
        )
    ray = join_cluster(address)
    try:
        with _members(ray, processes) as (members, about):
            place = _place(ray, processes, address)
            nodes = [f"{one['host']}" for one in about]
            elsewhere = {k: RayProcess(ray, members[k], nodes[k]) for k in range(1, processes)}
            run_processes(words, place, elsewhere, _devices(about[0]))
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _members(ray: Any, processes: int) -> Iterator[tuple[list[Any], list[dict[str, Any]]]]:
    """Actors in the places of all processes, and what they say of their nodes; the room is given back at the end."""
    here = ray.util.get_node_ip_address()
    device = "GPU" if ray.cluster_resources().get("GPU", 0) >= processes else "CPU"
    _refuse_full(ray, processes, device, here)
    bundles = [{device: 1} | ({f"node:{here}": ON_NODE} if number == 0 else {}) for number in range(processes)]
    group = ray.util.placement_group(bundles, strategy="SPREAD")
    try:
        if not ray.wait([group.ready()], timeout=PLACE_SECONDS)[0]:
            free = ray.available_resources().get(device, 0)
            raise UserError(
                f"the Ray cluster had no room for {counted(processes, 'process')} with a {device} each within "
                f"{PLACE_SECONDS:.0f} s: {free:g} are free in all, and process 0 needs one on {here}.",
                ["wait until other work has ended", f"--processes {max(1, int(free))}"],
            )
        kind = ray.remote(**{f"num_{device.lower()}s": 1}, max_restarts=0)(Member)
        members = [kind.options(scheduling_strategy=in_bundle(group, number)).remote() for number in range(processes)]
        about = ray.get([member.about.remote() for member in members])
        _refuse_other_versions(about)
        yield members, about
    finally:
        with contextlib.suppress(Exception):  # where the cluster is gone, so is the group
            ray.util.remove_placement_group(group)


def _refuse_full(ray: Any, processes: int, device: str, here: str) -> None:
    """Refuses more processes than there are devices, and a process 0 where there is none."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    count = sum(int(node["Resources"].get(device, 0)) for node in nodes)
    if count < processes:
        raise UserError(
            f"{counted(processes, 'process')} with a {device} each: the Ray cluster has {count} in "
            f"{counted(len(nodes), 'node')}.",
            [f"--processes {max(1, count)}", "add nodes"],
        )
    if not any(node["Resources"].get(device, 0) >= 1 for node in nodes if node["NodeManagerAddress"] == here):
        raise UserError(
            f"process 0 runs on this machine, where the run directory lies, and Ray has no {device} at {here}.",
            ["call the command on a node that has one", "ray start ... --num-cpus 1 here"],
        )


def _refuse_other_versions(about: Sequence[dict[str, Any]]) -> None:
    for one in about:
        if other := other_versions(versions(), one["versions"]):
            raise UserError(
                f"the node {one['host']} has other versions ({other}): processes of one training must be equal.",
                ["install the same versions on every node"],
            )


def _place(ray: Any, processes: int, address: str | None) -> ProcessPlace:
    """All processes, and a free port of this node."""
    host = ray.util.get_node_ip_address()
    with socket.socket() as found:
        found.bind((host, 0))
        port = found.getsockname()[1]
    again = " --on ray" + (f" --address {address}" if address else "")
    return ProcessPlace(f"{host}:{port}", processes, tuple(range(processes)), again)


def _devices(about: dict[str, Any]) -> dict[str, str]:
    """The variable that gives process 0 the GPU that its actor has reserved."""
    return {VISIBLE: about["devices"]} if about["devices"] else {}
