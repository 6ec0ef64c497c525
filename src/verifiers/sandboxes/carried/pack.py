"""Writes a tar of the Python that runs it and all it needs to start anywhere: `python3 -I -S pack.py TAR AGENT`.

In it: the program, its loader, the libraries that its modules load, the few files of the standard library that the
agent and the scripts beside agent programs need, and the agent, compiled. The Python in it finds its files by where it
lies, so the tree can be put anywhere. Runs by itself on any Linux Python >= 3.8, so also in a container.
"""

# Sent into boxes and run by whatever Python is there: written without types to stay small.
# pyright: basic

import sys

AGENT_NEEDS = ["_ctypes", "_signal", "_socket", "_stat", "errno", "posix", "resource", "select", "time"]
# what carries an agent program's model calls and tools, and what that imports late
SCRIPTS_NEED = ["http.client", "json", "os", "selectors", "socket", "threading"]
LATE = ["encodings.ascii", "encodings.latin_1", "linecache"]
OPTIONAL = {"_ctypes", "resource"}  # what lean Pythons lack: the agent does without

for name in ("ssl", "_hashlib"):  # large libraries, of no use in there: not to be found
    sys.modules[name] = None  # pyright: ignore[reportArgumentType]
for name in AGENT_NEEDS + SCRIPTS_NEED + LATE:
    try:
        __import__(name)
    except ImportError:
        if name not in OPTIONAL:
            raise
needed = sorted(name for name, module in sys.modules.items() if module is not None)
with open("/proc/self/maps") as file:
    maps = file.read().splitlines()

# what this script itself needs, which is not to be packed
import importlib.machinery  # noqa: E402
import importlib.util  # noqa: E402
import io  # noqa: E402
import marshal  # noqa: E402
import os  # noqa: E402
import struct  # noqa: E402
import tarfile  # noqa: E402

AT_BASE = 7  # of the kernel's vector: where the loader is


def loaded():
    """(the program, its loader, the libraries) that this process runs, links resolved."""
    program = os.path.realpath("/proc/self/exe")
    with open("/proc/self/auxv", "rb") as file:
        base = dict(struct.iter_unpack("@LL", file.read())).get(AT_BASE, 0)
    loader, libraries = "", set()
    for line in maps:
        addresses, rights, _, _, _, *path = line.split(None, 5)
        if not path or path[0][0] != "/":
            continue
        if int(addresses.split("-")[0], 16) == base:
            loader = path[0]
        elif "x" in rights:
            libraries.add(path[0])
    if not loader:
        raise SystemExit(f"{program} is linked statically, which cannot be carried")
    return program, loader, libraries - {program, loader}


def links_to(library):
    """The other names it may be asked for by: links to it in its own folder."""
    folder = os.path.dirname(library)
    names = sorted(entry.name for entry in os.scandir(folder) if entry.is_symlink())
    return [name for name in names if os.path.realpath(f"{folder}/{name}") == library]


def compiled(text, name):
    """The content of a .pyc that is never checked against a source."""
    code = compile(text, name, "exec", dont_inherit=True, optimize=2)
    return importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def found(name):
    """Where a module is on the path; None if it is part of the program, or another name of a module."""
    parent = sys.modules.get(name.rpartition(".")[0])
    if "." in name and not hasattr(parent, "__path__"):
        return None
    return importlib.machinery.PathFinder.find_spec(name, parent.__path__ if parent is not None else None)


def modules():
    """(extension modules by name in the tree, compiled modules by name in the tree) of those needed."""
    extensions, sources = {}, {}
    for name in needed:
        spec = found(name)
        if spec is None or spec.origin is None:
            continue
        path = spec.origin
        if path.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
            extensions[f"lib-dynload/{os.path.basename(path)}"] = os.path.realpath(path)
        elif path.endswith(".py"):
            inner = name.replace(".", "/") + ("/__init__" if spec.submodule_search_locations is not None else "")
            sources[f"{inner}.pyc"] = compiled(read(path), f"{inner}.py")
    return extensions, sources


def contents(agent):
    """name -> content (bytes), or the name in its folder that it is a link to (str)."""
    program, loader, libraries = loaded()
    extensions, sources = modules()
    library = f"{getattr(sys, 'platlibdir', 'lib')}/{os.path.basename(os.path.dirname(os.__file__))}"
    tree = {"bin/python3": read(program), "ld.so": read(loader), "agent.pyc": compiled(read(agent), "agent.py")}
    tree[f"{library}/lib-dynload/.keep"] = b""  # by this folder, and the module `os`, a Python knows its library
    tree.update({f"{library}/{name}": read(path) for name, path in extensions.items()})
    tree.update({f"{library}/{name}": data for name, data in sources.items()})
    for path in sorted(libraries - set(extensions.values())):
        own = os.path.basename(path)
        tree[f"so/{own}"] = read(path)
        tree.update({f"so/{name}": own for name in links_to(path)})
    return tree


def main(target, agent):
    tree = contents(agent)
    folders = {name[:end] for name in tree for end, letter in enumerate(name) if letter == "/"}
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted(folders):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for name, content in [*sorted(tree.items()), ("complete", b"")]:  # the last one: who finds it finds all
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))


main(*sys.argv[1:])
