"""POST with retries: one aiohttp session for each event loop, adaptive concurrency, bounded repetition.

aiohttp is loaded at the first request, not at import.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from verifiers.errors import ModelError, VerifiersError
from verifiers.models.failures import Failure, embedded_failure, fatal, http_failure, public_url, redact
from verifiers.models.limiter import Limiter
from verifiers.models.retry import RetryPolicy, retry_after_s
from verifiers.models.wire import decode, encode

if TYPE_CHECKING:
    from aiohttp import ClientSession

T = TypeVar("T")
CONNECT_TIMEOUT_S = 60.0
_NO_FILES_LEFT = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL})


@dataclass(frozen=True)
class CallLimits:
    """How long and how often one endpoint is asked."""

    timeout_s: float = 600.0
    """One attempt, from the moment it is sent; waiting for a slot or between attempts does not count."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)


class Answer(NamedTuple, Generic[T]):
    """What a call came to."""

    value: T
    attempts: int


class _Line(NamedTuple):
    """What one event loop needs to speak to one server."""

    session: ClientSession
    proxy: str | None
    limiter: Limiter


class Transport:
    """Sends JSON to one server and brings JSON back, from any number of tasks and event loops."""

    def __init__(
        self, url: str, *, headers: Mapping[str, str], secrets: tuple[str, ...] = (), limits: CallLimits | None = None
    ) -> None:
        """
        Args:
            secrets: texts that no error message may hold.
        """
        self._url, self._headers, self._secrets = url, dict(headers), secrets
        self._limits = limits or CallLimits()
        self._lines: dict[asyncio.AbstractEventLoop, _Line] = {}
        self._rng = random.Random()

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        parse: Callable[[Any], T],
        *,
        where: str,
        headers: Mapping[str, str] | None = None,
    ) -> Answer[T]:
        """The server's answer to `body`, after as many attempts as it takes and the policy allows.

        Args:
            parse: reads the reply; one it refuses with a `ModelError` is a failed attempt like any other.
            where: names model and address in messages.

        Raises:
            OverlongPromptError: the server says so.
            ModelError: refused, or given up.
        """
        line, retry = self._line(), self._limits.retry
        request = _Request(
            url=self._address(path),
            payload=encode(body),
            headers={**self._headers, **headers} if headers else self._headers,
            where=where,
            max_tokens=body.get("max_completion_tokens", body.get("max_tokens")),
        )
        attempt = timeouts = 0
        while True:
            attempt += 1
            epoch, overload = await line.limiter.acquire(), False
            try:
                outcome = await self._attempt(line, request, parse)
                overload = isinstance(outcome, Failure) and outcome.overload
            finally:
                line.limiter.release(epoch, overload=overload)
            if not isinstance(outcome, Failure):
                return Answer(outcome, attempt)
            timeouts += outcome.late
            last = attempt >= retry.attempts or timeouts >= retry.timeouts or not outcome.retry
            pause_s = None if last else retry.delay_s(attempt, outcome.wish_s, self._rng)
            if pause_s is None:
                raise self._final(outcome, attempt, refused_wish=not last)
            await asyncio.sleep(pause_s)

    async def _attempt(self, line: _Line, request: _Request, parse: Callable[[Any], T]) -> T | Failure:
        import aiohttp

        where = request.where
        try:
            async with line.session.post(
                request.url, data=request.payload, headers=request.headers, allow_redirects=False, proxy=line.proxy
            ) as answer:
                raw, status, said = await answer.read(), answer.status, answer.headers
        except aiohttp.ConnectionTimeoutError:
            late = ModelError(f"{where} cannot be reached: no connection within {CONNECT_TIMEOUT_S:g} s")
            return Failure(late, retry=True, late=True)
        except TimeoutError:
            late = ModelError(f"{where} did not answer within {self._limits.timeout_s:g} s")
            return Failure(late, retry=True, late=True)
        except aiohttp.InvalidURL:
            return Failure(fatal(f"{where}: this is not an address"), retry=False)
        except (aiohttp.ClientError, OSError) as error:
            return unreachable(error, where)
        if not 200 <= status < 300:
            wish_s = retry_after_s(said)
            return http_failure(status, raw, where=where, max_tokens=request.max_tokens, wish_s=wish_s)
        try:
            reply = decode(raw)
        except ValueError:
            text = raw[:200].decode("utf-8", "replace")
            return Failure(ModelError(f"{where} answered something that is not JSON: {text!r}"), retry=True)
        failure = embedded_failure(reply, where=where, max_tokens=request.max_tokens)
        if failure is not None:
            return failure
        try:
            return parse(reply)
        except ModelError as error:
            return Failure(error, retry=True)

    def _final(self, failure: Failure, attempts: int, *, refused_wish: bool) -> VerifiersError:
        error, tail = failure.error, f"; gave up after {attempts} attempts" if attempts > 1 else ""
        if refused_wish:
            allowed = self._limits.retry.longest_wish_s
            tail = f"; it asks for a pause of {failure.wish_s:.0f} s, longer than the {allowed:g} s allowed"
        error.args = (redact(f"{error}{tail}", self._secrets),)
        return error

    async def status(self, path: str, *, timeout_s: float = 10.0) -> int:
        """The HTTP status that a GET of `path` gives, asked once.

        Raises:
            ModelError: the server cannot be reached.
        """
        import aiohttp

        line, where = self._line(), public_url(self._url)
        try:
            async with line.session.get(
                self._address(path),
                headers=self._headers,
                allow_redirects=False,
                proxy=line.proxy,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
            ) as answer:
                return answer.status
        except TimeoutError:
            failure = Failure(ModelError(f"{where} did not answer within {timeout_s:g} s"), retry=True)
        except aiohttp.InvalidURL:
            failure = Failure(fatal(f"{where}: this is not an address"), retry=False)
        except (aiohttp.ClientError, OSError) as error:
            failure = unreachable(error, where)
        raise self._final(failure, 1, refused_wish=False)

    def _address(self, path: str) -> str:
        base, mark, query = self._url.partition("?")
        return f"{base}{path}{mark}{query}"

    def _line(self) -> _Line:
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None or line.session.closed:
            self._lines = {other: open_ for other, open_ in self._lines.items() if not other.is_closed()}
            line = self._lines[loop] = self._open()
        return line

    def _open(self) -> _Line:
        import aiohttp

        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            timeout=aiohttp.ClientTimeout(total=self._limits.timeout_s, sock_connect=CONNECT_TIMEOUT_S),
        )
        return _Line(session, proxy_for(self._url), Limiter())

    async def close(self) -> None:
        """Close the connections of this event loop."""
        line = self._lines.pop(asyncio.get_running_loop(), None)
        if line is not None:
            await line.session.close()


class _Request(NamedTuple):
    url: str
    payload: bytes
    headers: Mapping[str, str]
    where: str
    max_tokens: Any


def proxy_for(url: str) -> str | None:
    """The HTTP proxy the environment names for `url`; aiohttp's own look-up would read files on every request."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or not parts.hostname or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return proxy


def unreachable(error: BaseException, where: str) -> Failure:
    """The failure that a broken or refused connection is; too many open files counts as overload."""
    number = getattr(error, "errno", None)
    reason = os.strerror(number) if isinstance(number, int) and number > 0 else str(error) or type(error).__name__
    return Failure(ModelError(f"{where} cannot be reached: {reason}"), retry=True, overload=number in _NO_FILES_LEFT)
