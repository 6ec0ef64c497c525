"""A real server on loopback whose n-th request is answered as a test says."""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from verifiers.models import CallLimits, Endpoint, EndpointModel, RetryPolicy

QUICK = CallLimits(timeout_s=60, retry=RetryPolicy(attempts=4, first_s=0.01, longest_s=0.05))
KEY = "sk-verysecret-123456"


@dataclass
class Served:
    url: str
    bodies: list[Any] = field(default_factory=list)
    headers: list[Any] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def model(self, *, limits: CallLimits = QUICK, **options: Any) -> EndpointModel:
        return EndpointModel(Endpoint("m", self.url, **{"key": KEY, **options}), limits=limits)


Answer = Callable[[int, web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def server(answer: Answer) -> AsyncIterator[Served]:
    """A server whose n-th request (from 0) is answered by `answer`."""
    served = Served("")

    async def handle(request: web.Request) -> web.StreamResponse:
        number = len(served.times)
        served.times.append(time.monotonic())
        served.headers.append(dict(request.headers))
        raw = await request.read()
        served.bodies.append(json.loads(raw) if raw else None)
        return await answer(number, request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    served.url = f"http://{host}:{port}/v1"
    try:
        yield served
    finally:
        await runner.cleanup()


@pytest.fixture
def serve() -> Callable[[Answer], Any]:
    return server
