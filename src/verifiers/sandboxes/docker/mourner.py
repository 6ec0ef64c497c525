"""Runs as a process of its own beside one that starts containers, and outlives it by half a minute if that was killed:
removes the containers which the engine was still making then. Those that ran end by themselves.

Arguments: the owner's pid, a unix socket's path or `host:port`, and the label that the owner's containers have.
"""

# Run by `-I -S` with nothing but the standard library: written without types to stay small.
# pyright: basic

import json
import os
import socket
import sys
import time
from urllib.parse import quote

WAITS_S = (0, 1, 2, 4, 8, 15)
"""Before each look: what an engine makes for a caller who is gone may take it that long."""


def ask(place, request):
    if place.startswith("/"):
        line = socket.socket(socket.AF_UNIX)
        line.settimeout(30)
        line.connect(place)
    else:
        host, _, port = place.rpartition(":")
        line = socket.create_connection((host, int(port)), 30)
    with line:
        line.sendall(f"{request} HTTP/1.0\r\nHost: engine\r\n\r\n".encode())
        answer = b""
        while data := line.recv(1 << 16):
            answer += data
    return answer.partition(b"\r\n\r\n")[2]


def remove_all(place, label):
    wanted = quote(json.dumps({"label": [label]}))
    for each in json.loads(ask(place, f"GET /containers/json?all=true&filters={wanted}")):
        ask(place, f"DELETE /containers/{each['Id']}?force=true&v=true")


def main():
    owner, place, label = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    os.chdir("/")
    while os.getppid() == owner:
        time.sleep(1)
    for wait_s in WAITS_S:
        time.sleep(wait_s)
        try:
            remove_all(place, label)
        except (OSError, ValueError, TypeError):
            continue  # the engine is busy or gone; the next run's prune is there as well


if __name__ == "__main__":
    main()
