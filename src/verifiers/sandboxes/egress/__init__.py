"""The one way out of a box with `network="allowlist"`: a filtering proxy of this process, reached through the agent.

The box has an empty network. Its agent listens on a port of the box's loopback, and what connects there is served
here: HTTP's CONNECT, plain HTTP and SOCKS5. Only this side resolves names and opens connections, after asking the
list (`allow.py`), so nothing inside can go round it. Every connection ends with its box.
"""
