"""The server of the live page, built on the standard library: it answers a few requests per second on loopback."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import json
import os
import secrets
import shutil
import socket
import threading
import time
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import parse_qs, urlsplit

from batchwright.core.errors import UserError
from batchwright.web.assets import PAGE, asset
from batchwright.web.describe import curves, details
from batchwright.web.folder import TUNING_FILE, Folder
from batchwright.web.groups import live_groups, settings_of
from batchwright.web.record import VIDEO_TYPES, RunRecord
from batchwright.web.tuning_report import describe_tuning, read_tuning, tuning_summary

READ_SECONDS = 0.4
"""Time per request for parsing records: large ones are read over several requests."""
MOST_RUNS_REQUESTED = 100
MOST_POINTS = 2048
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


Window = tuple[str, float, float] | None
"""The part of an axis that is zoomed in on: its name, from, to."""


class Refused(Exception):  # noqa: N818 - a response, not an error
    """A response with a status other than 200."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Watcher:
    """All runs of a folder, followed as they appear and disappear."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._records: dict[str, RunRecord] = {}
        self._tunings: dict[str, tuple[int, dict[str, Any]]] = {}
        """By name: the size of the ledger when it was last read, and what the list shows of it."""
        self._lock = threading.Lock()

    def records(self) -> tuple[dict[str, RunRecord], int]:
        """The current runs by name, and the number of links that were skipped."""
        records, _, links = self._scan()
        return records, links

    def _scan(self) -> tuple[dict[str, RunRecord], list[str], int]:
        names, tunings, links = self.folder.scan()
        with self._lock:
            self._records = {name: self._records.get(name) or RunRecord(self.folder, name) for name in names}
            return dict(self._records), tunings, links

    def tuning(self, name: str) -> dict[str, Any]:
        """One tuning by name; `Refused` if there is none, or its ledger is damaged."""
        if name not in self._scan()[1]:
            raise Refused(HTTPStatus.NOT_FOUND, "no such tuning")

        def read(run: str) -> RunRecord:
            try:
                record = self.record(run)
            except Refused:  # a unit whose folder was removed: the ledger has its score
                record = RunRecord(self.folder, run)
            record.refresh()
            record.read_metrics()
            return record

        try:
            return describe_tuning(self.folder, name, read)
        except UserError as error:
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, error.message) from None

    def _list_tunings(self, names: list[str]) -> list[dict[str, Any]]:
        """A row for each tuning; a ledger is read again when it has grown."""
        rows = []
        for name in names:
            try:
                with os.fdopen(self.folder.open_file(f"{name}/{TUNING_FILE}"), "rb") as file:
                    size = os.fstat(file.fileno()).st_size
                known = self._tunings.get(name)
                if known is None or known[0] != size:
                    known = size, tuning_summary(read_tuning(self.folder, name))
                    self._tunings[name] = known
            except OSError:
                continue
            rows.append({"name": name, "stamp": known[0], **known[1]})
        return rows

    def record(self, name: str) -> RunRecord:
        """One run by name; `Refused` with 404 if there is none."""
        with self._lock:
            found = self._records.get(name)
        if found is None or not self.folder.holds_run(name):
            found = self.records()[0].get(name)
        if found is None:
            raise Refused(HTTPStatus.NOT_FOUND, "no such run")
        return found

    def settings(self) -> dict[str, Any]:
        """The numbers of every plan, and which runs differ in the seed alone."""
        records = self.records()[0]
        for record in records.values():
            record.refresh()
        return settings_of(list(records.values()))

    def groups(self, names: list[str], axis: str) -> dict[str, Any]:
        """Medians and bands of the named runs, from what has been read of them so far."""
        records = self.records()[0]
        chosen = [records[name] for name in names if name in records]
        with contextlib.ExitStack() as held:
            for record in chosen:
                held.enter_context(record.lock)
            return {"groups": live_groups(chosen, axis)}

    def state(
        self, requested: list[tuple[str, tuple[int, ...] | None]], points: int, bands: bool, window: Window = None
    ) -> dict[str, Any]:
        """A summary of every run, and the curves of the requested ones; None for a run that is gone."""
        records, tunings, links = self._scan()
        for record in records.values():
            record.refresh()
        _read_on([records[name] for name, _ in requested if name in records])
        found: dict[str, Any] = {
            name: curves(records[name], points, known, bands=bands, window=window) if name in records else None
            for name, known in requested
        }
        for name in list(found)[:1]:
            if found[name] is not None:
                found[name]["videos"] = records[name].videos()
        rows = [record.summary() for record in records.values()]
        head = {"folder": self.folder.path.name, "now": time.time(), "links": links}
        return {**head, "runs": rows, "tunings": self._list_tunings(tunings), "curves": found}


def _read_on(records: list[RunRecord]) -> None:
    """Reads further metrics within the time per request, from the least read record on."""
    deadline = time.monotonic() + READ_SECONDS
    for record in sorted(records, key=lambda record: record.metrics.offset):
        record.read_metrics(READ_SECONDS / len(records))
        if time.monotonic() > deadline:
            return


class Server(ThreadingHTTPServer):
    """Answers GET and HEAD requests that carry the token."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], watcher: Watcher) -> None:
        self.watcher = watcher
        self.token = secrets.token_urlsafe(24)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    @property
    def link(self) -> str:
        """The URL to open, with the token."""
        host, port = str(self.server_address[0]), self.server_address[1]
        if ipaddress.ip_address(host).is_unspecified:
            host = socket.gethostname()
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{port}/?token={self.token}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores a browser that closes the connection."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 60
    wbufsize, disable_nagle_algorithm = -1, True  # one packet for head and body: two would wait 40 ms for an ACK
    server_version, sys_version = "batchwright", ""

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _refuse_method(self) -> None:
        self.close_connection = True
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, b"this page is read-only\n", "text/plain", {"Allow": "GET, HEAD"})

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _refuse_method  # noqa: N815 - named by http.server

    def _answer(self) -> None:
        try:
            self._check_host()
            parts = urlsplit(self.path)
            query = parse_qs(parts.query, max_num_fields=1000)
            self._check_token(query)
            if parts.path == "/" and "token" in query:
                self._hand_over_cookie()
            elif parts.path == "/video":
                self._send_video(_one(query, "run"), _one(query, "file"))
            elif parts.path.startswith("/api/"):
                self._send_json(self._api(parts.path, query))
            else:
                self._send_asset("page.html" if parts.path == "/" else parts.path.removeprefix("/assets/"))
        except Refused as refused:
            self._send(refused.status, f"{refused}\n".encode(), "text/plain")
        except (ValueError, OSError) as error:
            if isinstance(error, ConnectionError):
                return
            self._send(HTTPStatus.BAD_REQUEST, b"bad request\n", "text/plain")

    def _api(self, path: str, query: dict[str, list[str]]) -> dict[str, Any]:
        watcher = self.server.watcher
        if path == "/api/state":
            names = query.get("run", [])[:MOST_RUNS_REQUESTED]
            known = [_known(text) for text in query.get("known", [])]
            known += [None] * (len(names) - len(known))
            points = min(MOST_POINTS, max(16, int(query.get("points", ["512"])[0])))
            requested = list(zip(names, known, strict=False))
            return watcher.state(requested, points, query.get("bands") != ["0"], _window(query))
        if path == "/api/run":
            record = watcher.record(_one(query, "run"))
            record.refresh()
            return details(record)
        if path == "/api/settings":
            return {"runs": watcher.settings()}
        if path == "/api/groups":
            return watcher.groups(query.get("run", [])[:MOST_RUNS_REQUESTED], query.get("axis", ["env_steps"])[0])
        if path == "/api/tuning":
            return watcher.tuning(_one(query, "tuning"))
        raise Refused(HTTPStatus.NOT_FOUND, "no such page")

    def _check_host(self) -> None:
        """Refuses requests under a foreign host name, which DNS rebinding would send.

        Ports are not compared, so that a forwarded one (ssh -L) works.
        """
        try:
            host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        except ValueError:
            host = ""
        if host == "localhost" or (host and host == socket.gethostname().lower()):
            return
        try:
            address = ipaddress.ip_address(host)
            if address.is_loopback or address == ipaddress.ip_address(self.connection.getsockname()[0]):
                return
        except ValueError:
            pass
        raise Refused(HTTPStatus.FORBIDDEN, "unknown host name")

    def _check_token(self, query: dict[str, list[str]]) -> None:
        offered = query.get("token", [])[:1]
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(self._cookie_name())
            offered += [cookie.value] if cookie else []
        except CookieError:
            pass
        if not any(hmac.compare_digest(word.encode(), self.server.token.encode()) for word in offered):
            raise Refused(HTTPStatus.FORBIDDEN, "open the link that batchwright watch printed: it carries a token")

    def _cookie_name(self) -> str:
        # Cookies ignore ports, so two servers on one host need two names.
        return f"batchwright_{self.server.server_address[1]}"

    def _hand_over_cookie(self) -> None:
        """Moves the token from the URL into a cookie, so that the visible URL is not secret."""
        cookie = f"{self._cookie_name()}={self.server.token}; Path=/; HttpOnly; SameSite=Lax"
        self._send(HTTPStatus.SEE_OTHER, b"", "text/plain", {"Location": "/", "Set-Cookie": cookie})

    def _send_json(self, value: dict[str, Any]) -> None:
        body = json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
        self._send(HTTPStatus.OK, body, "application/json")

    def _send_asset(self, name: str) -> None:
        if name not in PAGE:
            raise Refused(HTTPStatus.NOT_FOUND, "no such page")
        kind = _TYPES[PurePosixPath(name).suffix]
        self._send(HTTPStatus.OK, asset(name).encode(), f"{kind}; charset=utf-8")

    def _send_video(self, run: str, file: str) -> None:
        record = self.server.watcher.record(run)
        if file not in record.videos():
            raise Refused(HTTPStatus.NOT_FOUND, "no such video")
        with os.fdopen(record.folder.open_file(f"{run}/{file}"), "rb") as video:
            size = os.fstat(video.fileno()).st_size
            self._send_head(HTTPStatus.OK, size, VIDEO_TYPES[PurePosixPath(file).suffix.lower()], {})
            if self.command != "HEAD":
                shutil.copyfileobj(video, self.wfile)

    def _send(self, status: HTTPStatus, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self._send_head(status, len(body), kind, headers or {})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_head(self, status: HTTPStatus, length: int, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Does not log requests, because they carry the token."""


def _one(query: dict[str, list[str]], name: str) -> str:
    values = query.get(name, [])
    if len(values) != 1:
        raise Refused(HTTPStatus.BAD_REQUEST, f"exactly one {name} is needed")
    return values[0]


def _window(query: dict[str, list[str]]) -> Window:
    if "axis" not in query:
        return None
    low, high = float(_one(query, "low")), float(_one(query, "high"))
    if not low <= high:
        raise Refused(HTTPStatus.BAD_REQUEST, "low must not exceed high")
    return _one(query, "axis"), low, high


def _known(text: str) -> tuple[int, ...] | None:
    """What the page already has of a run: generation, metrics, rows per bucket, complete buckets."""
    parts = text.split(".")
    if len(parts) != 4 or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        return None
    return tuple(int(part) for part in parts)
