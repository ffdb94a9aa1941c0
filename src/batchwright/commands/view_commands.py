"""The commands watch and report: runs as web pages."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING
from urllib.parse import quote

from batchwright.commands.parser import Parser
from batchwright.core.errors import UserError, quoted
from batchwright.core.run_dir import RUNS, RunDir
from batchwright.core.safe_open import checked_path

if TYPE_CHECKING:
    from batchwright.web.folder import Folder
    from batchwright.web.server import Server

HOST = "127.0.0.1"
PORT = 8765
_HIGHEST_PORT = 65535


def watch(words: list[str]) -> int:
    """`batchwright watch [RUNS]`."""
    parser = Parser(
        prog="batchwright watch",
        description="Shows runs live in a browser. Only reads; answers only to the link it prints.",
        allow_abbrev=False,
    )
    parser.add_argument("folder", nargs="?", metavar="RUNS", help="a folder of runs, or one run (runs)")
    parser.add_argument("--runs", metavar="DIR", help="the same as RUNS")
    parser.add_argument("--port", metavar="N", help=f"port to listen on ({PORT}, or a free one where it is taken)")
    parser.add_argument("--host", default=HOST, metavar="ADDRESS", help=f"address to listen on ({HOST}: this machine)")
    stated = parser.read(words)
    if stated["folder"] is not None and stated["runs"] is not None:
        raise UserError("RUNS and --runs both name the folder.", [f"batchwright watch {stated['runs']}"])
    folder = _folder(stated["folder"] if stated["folder"] is not None else stated["runs"])
    server = _listen(folder, stated["host"], None if stated["port"] is None else _port(stated["port"]))
    if stated["host"] not in (HOST, "localhost", "::1"):
        print(f"warning: {stated['host']} can be reached from other machines; whoever has the link can read all runs.")
    inside = folder.path.is_relative_to(Path.cwd()) and folder.path != Path.cwd()
    shown = folder.path.relative_to(Path.cwd()) if inside else folder.path
    print(f"{shown}: {server.link}{_page(folder)}\nCtrl-C ends it.", flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        print("ended.")
    finally:
        server.server_close()
    return 0


def report(words: list[str]) -> int:
    """`batchwright report RUN [RUN ...] [-o FILE]`."""
    parser = Parser(
        prog="batchwright report",
        description="Writes one HTML page about one or several runs that opens offline.",
        allow_abbrev=False,
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run directories; those with equal settings are grouped")
    parser.add_argument("-o", "--out", metavar="FILE", help="where it is written (report.html in the run, for one run)")
    stated = parser.read(words)

    from batchwright.web.report import write_report

    print(f"report: {write_report(stated['runs'], stated['out'])}")
    return 0


def _folder(named: str | None) -> Folder:
    """The folder to show; the default one may still be missing, as the first training makes it."""
    from batchwright.tuning.tuning_ledger import is_tuning
    from batchwright.web.folder import Folder

    path = RUNS if named is None else checked_path(named)
    try:
        real = path.resolve()
        is_there = real.is_dir()
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"{quoted(str(named))} is no name of a folder.", ["batchwright watch runs"]) from error
    if named is not None and not is_there:
        what = "is a file" if real.exists() else "does not exist"
        raise UserError(f"{path} {what}.", ["batchwright watch DIR", "batchwright train CartPole-v1"])
    if RunDir(real).is_run or is_tuning(real):
        return Folder(real.parent, only=real.name)
    return Folder(real)


def _page(folder: Folder) -> str:
    """The part of the link that opens the run or the tuning that was named."""
    if folder.only is None:
        return ""
    kind = "run" if folder.holds_run(folder.only) else "tuning"
    return f"#/{kind}/{quote(folder.only, safe='')}"


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 5 or int(text) > _HIGHEST_PORT:
        raise UserError(f"--port {text[:20]} is not a port: a whole number up to {_HIGHEST_PORT}.", [f"--port {PORT}"])
    return int(text)


def _listen(folder: Folder, host: str, port: int | None) -> Server:
    """The server on the given port, else on the default one or, where that is taken, any free one."""
    from batchwright.web.server import Server, Watcher

    watcher = Watcher(folder)
    try:
        return Server((host, PORT if port is None else port), watcher)
    except OSError as error:
        if port is not None or host != HOST:
            raise UserError(
                f"cannot listen on {quoted(host)} port {port or PORT}: {error.strerror}.", ["--port 0 for a free one"]
            ) from error
        return Server((host, 0), watcher)
    except (UnicodeError, OverflowError, ValueError, TypeError) as error:
        raise UserError(f"{quoted(host)} is no address.", [f"--host {HOST}"]) from error


def _leave(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
