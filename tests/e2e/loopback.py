"""An OpenAI-compatible server on the loopback interface, in a thread of the test."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = str | tuple[int, dict[str, str], dict[str, Any]]
"""A reply's text, or a status with headers and body."""


class Loopback:
    """Counts and keeps what it was asked; `answer` says what comes back."""

    def __init__(self, answer: Callable[[dict[str, Any]], Answer], latency_s: float = 0.0) -> None:
        self.answer, self.latency_s = answer, latency_s
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        """The key that each request came with."""
        self.url = ""
        self._lock = threading.Lock()

    def handle(self, body: dict[str, Any], key: str) -> tuple[int, dict[str, str], dict[str, Any]]:
        with self._lock:
            self.requests.append(body)
            self.keys.append(key)
        time.sleep(self.latency_s)
        answer = self.answer(body)
        if not isinstance(answer, str):
            return answer
        message = {"role": "assistant", "content": answer}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        base = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body.get("model")}
        return 200, {}, {**base, "choices": [choice], "usage": usage}


@contextmanager
def serve(answer: Callable[[dict[str, Any]], Answer] | str, *, latency_s: float = 0.0) -> Iterator[Loopback]:
    """A running server; `answer` is a text for every request, or a function of the request's body."""
    loopback = Loopback(answer if callable(answer) else lambda body: answer, latency_s)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(200, {}, {"object": "list", "data": [{"id": "mock", "object": "model"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            key = (self.headers["Authorization"] or "").removeprefix("Bearer ")
            self._send(*loopback.handle(body, key))

        def _send(self, status: int, headers: dict[str, str], body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            try:
                self.send_response(status)
                for name, value in {**headers, "Content-Type": "application/json"}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:  # the client was killed, which is what some tests are about
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # connections reset by killed clients

    server = Server(("127.0.0.1", 0), Handler)
    loopback.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield loopback
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
