"""SOCKS5 to the proxy: CONNECT without authentication, to names and addresses (RFC 1928)."""

from __future__ import annotations

import ipaddress

from verifiers.sandboxes.egress.carrying import HEAD_TIMEOUT_S, Idle, Program, Reach, tunnel, using
from verifiers.sandboxes.egress.outer import ProxyError
from verifiers.sandboxes.egress.reach import RefusedHost, UnreachableHost

VERSION = 5
NO_AUTHENTICATION, NO_METHOD = 0, 0xFF
CONNECT = 1
IPV4, NAME, IPV6 = 1, 3, 4
DONE, FAILED, NOT_ALLOWED, HOST_UNREACHABLE, NO_SUCH_COMMAND, NO_SUCH_ADDRESS = 0, 1, 2, 4, 7, 8


class _Bad(Exception):
    """Nothing that is served here; the code to answer."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


async def serve_socks(program: Program, reach: Reach) -> None:
    """Serve one request.

    Raises:
        OSError: either side hung up in the middle, or nothing moved for long.
        ProxyError: this machine's proxy leads nowhere; the program has been told.
    """
    try:
        async with Idle(HEAD_TIMEOUT_S):
            if not await _agreed(program):
                return
            host, port = await _request(program)
        async with using(await reach(host, port, "https")) as upstream:
            await program.write(_reply(DONE))
            await tunnel(program, upstream)
    except RefusedHost:
        await program.write(_reply(NOT_ALLOWED))
        program.end()
    except (UnreachableHost, ProxyError) as error:
        await program.write(_reply(HOST_UNREACHABLE))
        program.end()
        if isinstance(error, ProxyError):
            raise
    except ValueError:
        await program.write(_reply(FAILED))
        program.end()
    except _Bad as error:
        await program.write(_reply(error.code))
        program.end()


async def _agreed(program: Program) -> bool:
    _, count = await program.exactly(2)
    offered = await program.exactly(count)
    agreed = NO_AUTHENTICATION in offered
    await program.write(bytes([VERSION, NO_AUTHENTICATION if agreed else NO_METHOD]))
    if not agreed:
        program.end()
    return agreed


async def _request(program: Program) -> tuple[str, int]:
    version, command, _, kind = await program.exactly(4)
    if version != VERSION:
        raise _Bad(FAILED)
    if kind == NAME:
        host = (await program.exactly((await program.exactly(1))[0])).decode("utf-8")
    elif kind == IPV4:
        host = str(ipaddress.IPv4Address(await program.exactly(4)))
    elif kind == IPV6:
        host = str(ipaddress.IPv6Address(await program.exactly(16)))
    else:
        raise _Bad(NO_SUCH_ADDRESS)
    port = int.from_bytes(await program.exactly(2), "big")
    if command != CONNECT:
        raise _Bad(NO_SUCH_COMMAND)
    return host, port


def _reply(code: int) -> bytes:
    """`code`, with no address: where it was connected from is nobody's matter in the box."""
    return bytes([VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0])
