"""Servers on this machine's loopback for boxes to reach, and what they serve."""

import functools
import http.server
import shutil
import ssl
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(folder: Path, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port of a server of `folder`."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=folder)) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def tiny_wheel(folder: Path) -> None:
    """A package index with one package in it."""
    wheel = folder / "simple" / "tiny" / "tiny-1.0-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    (wheel.parent / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    info = "tiny-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny.py", "SAYS = 'installed'\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"tiny.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


def bare_repository(folder: Path) -> None:
    """`repo.git` in `folder`, with one commit of a file, as any web server can serve it."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(folder)]
    (folder / "source").mkdir()
    (folder / "source" / "file").write_text("cloned")
    for words in (
        "init -q source",
        "-C source add file",
        "-C source commit -qm one",
        "clone -q --bare source repo.git",
        "-C repo.git update-server-info",
    ):
        subprocess.run([*git, *words.split()], check=True)


def certificate(folder: Path, *names: str) -> tuple[Path, ssl.SSLContext]:
    """A certificate for the host names `names` and 127.0.0.1 that signs itself, and a server's side of it."""
    assert shutil.which("openssl"), "install openssl"
    key, signed = folder / "key.pem", folder / "signed.pem"
    alternatives = ",".join(["subjectAltName=IP:127.0.0.1", *(f"DNS:{name}" for name in names)])
    argv = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
    subprocess.run(
        [*argv.split(), "-addext", alternatives, "-keyout", key, "-out", signed], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed, key)
    return signed, context
