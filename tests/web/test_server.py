"""The server: only with the link, only on this machine, read-only."""

from __future__ import annotations

import http.client
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from records import ADVICE, append, line, make_run

from batchwright.web.folder import Folder
from batchwright.web.server import Server, Watcher

GIF = b"GIF89a" + bytes(20)


class Client:
    """One visitor; `cookie` is what the link gave."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.port = int(server.server_address[1])
        self.cookie = f"batchwright_{self.port}={server.token}"

    def ask(
        self, path: str, method: str = "GET", host: str = "127.0.0.1", cookie: str | None = None
    ) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        headers = {"Host": f"{host}:{self.port}", "Cookie": self.cookie if cookie is None else cookie}
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        found = answer.status, answer.read(), dict(answer.getheaders())
        connection.close()
        return found

    def json(self, path: str) -> dict[str, object]:
        status, body, _ = self.ask(path)
        assert status == 200, (path, body)
        return json.loads(body)  # type: ignore[no-any-return]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    runs = tmp_path / "runs"
    make_run(runs / "first", 20, events=[ADVICE])
    make_run(runs / "second", 10)
    (runs / "first" / "episode.gif").write_bytes(GIF)
    (tmp_path / "secret.gif").write_bytes(b"secret")
    (runs / "first" / "linked.gif").symlink_to(tmp_path / "secret.gif")
    server = Server(("127.0.0.1", 0), Watcher(Folder(runs)))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield Client(server)
    server.shutdown()
    server.server_close()


PATHS = ["/", "/assets/page.js", "/api/state", "/api/run?run=first", "/video?run=first&file=episode.gif"]


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_served_without_the_token(client: Client, path: str) -> None:
    joint = "&" if "?" in path else "?"
    for cookie in ("", f"batchwright_{client.port}=guess", f"other={client.server.token}", "==;;,\x7f"):
        assert client.ask(path, cookie=cookie)[0] == 403
    assert client.ask(f"{path}{joint}token=guess", cookie="")[0] == 403
    assert client.ask(path)[0] == 200


@pytest.mark.parametrize("path", PATHS)
def test_a_foreign_host_name_is_refused_even_with_the_token(client: Client, path: str) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "10.1.2.3", "", "[zz"):
        assert client.ask(path, host=host)[0] == 403
    assert client.ask(path, host="localhost")[0] == 200


def test_the_link_hands_the_token_over_to_a_cookie_and_leaves_the_address(client: Client) -> None:
    parts = urlsplit(client.server.link)
    assert parts.hostname == "127.0.0.1"
    status, _, headers = client.ask(f"/?{parts.query}", cookie="")
    assert (status, headers["Location"]) == (303, "/")
    assert "HttpOnly" in headers["Set-Cookie"]
    assert "SameSite=Lax" in headers["Set-Cookie"]
    assert client.ask("/", cookie=headers["Set-Cookie"].split(";")[0])[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_reading_is_answered(client: Client, method: str) -> None:
    assert client.ask("/api/state", method)[0] == 405


def test_head_has_the_headers_and_no_body(client: Client) -> None:
    status, body, headers = client.ask("/api/run?run=first", "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 100


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_forbids_scripts_and_pages_from_elsewhere(client: Client, path: str) -> None:
    headers = client.ask(path)[2]
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../server.py",
        "/assets/..%2fserver.py",
        "/assets/__init__.py",
        "/assets/report.html",
        "/../../etc/passwd",
        "//etc/passwd",
        "/api/nothing",
        "/api/run?run=missing",
        "/api/run?run=..",
        "/api/run?run=../runs/first",
        "/api/run?run=first/../second",
        "/api/run?run=%2Fetc",
        "/api/run?run=first%00",
        "/video?run=first&file=linked.gif",
        "/video?run=first&file=../../secret.gif",
        "/video?run=first&file=plan.json",
        "/video?run=..&file=secret.gif",
    ],
)
def test_no_path_leads_out(client: Client, path: str) -> None:
    status, body, _ = client.ask(path)
    assert status == 404
    assert b"secret" not in body


@pytest.mark.parametrize(
    "path",
    [
        "/api/run",
        "/api/run?run=first&run=second",
        "/api/state?points=many",
        "/video?run=first",
        "/api/state?" + "a=1&" * 1001,
    ],
)
def test_a_question_without_sense_is_a_bad_request(client: Client, path: str) -> None:
    assert client.ask(path)[0] == 400


@pytest.mark.parametrize(
    "known", ["", "x", "1.2.3", "1.2.3.4.5", "-1.0.1.0", "9" * 30 + ".1.1.1", "\u0663.1.1.1", "0.0.0.0"]
)
def test_what_a_page_claims_to_know_is_not_trusted(client: Client, known: str) -> None:
    found = client.json(f"/api/state?run=first&known={quote(known)}")["curves"]["first"]  # type: ignore[index]
    assert found["start"] == 0
    assert len(found["mean"]["episode_return"]) == 20


def test_a_video_of_the_run_is_given_out(client: Client) -> None:
    status, body, headers = client.ask("/video?run=first&file=episode.gif")
    assert (status, body, headers["Content-Type"]) == (200, GIF, "image/gif")
    assert client.json("/api/run?run=first")["videos"] == ["episode.gif"]


def test_runs_come_grow_and_go_while_it_looks(client: Client, tmp_path: Path) -> None:
    runs = tmp_path / "runs"

    def state(*names: str) -> dict[str, object]:
        return client.json("/api/state?" + "&".join(f"run={name}" for name in names))

    assert [run["name"] for run in state()["runs"]] == ["first", "second"]  # type: ignore[attr-defined,index]
    make_run(runs / "third", 3)
    found = state("third")
    assert [run["name"] for run in found["runs"]] == ["first", "second", "third"]  # type: ignore[attr-defined,index]
    assert found["curves"]["third"]["rows"] == 3  # type: ignore[index]
    append(runs / "third" / "metrics.jsonl", line(3), line(4))
    assert state("third")["curves"]["third"]["rows"] == 5  # type: ignore[index]
    shutil.rmtree(runs / "third")
    gone = state("third")
    assert gone["curves"] == {"third": None}
    assert client.ask("/api/run?run=third")[0] == 404
    shutil.rmtree(runs)
    assert state()["runs"] == []


def test_the_list_tells_return_progress_and_advice_of_each_run(client: Client) -> None:
    first = client.json("/api/state")["runs"][0]  # type: ignore[index]
    # Iterations 10 to 19 have returns 100 to 190: their mean is 145.
    assert first["return"] == 145.0
    assert (first["iteration"], first["iterations"], first["env_steps"]) == (20, 20, 5120)
    assert (first["status"], first["advice"], first["env"], first["algo"]) == ("finished", 1, "CartPole-v1", "ppo")
