"""The tasks of `terminal-tasks`: what to do, what is there, a solution, and what must hold afterwards."""

# ruff: noqa: E501 - instructions and scripts read better whole
from __future__ import annotations

from typing import Any

Row = dict[str, Any]

_PY = "python3 -I -c"
_IMPORT = "import sys; sys.path.insert(0, '.')"


def _said(run: str, stdout: str, exit_code: int = 0) -> dict[str, Any]:
    return {"run": run, "stdout": stdout, "exit_code": exit_code}


_GIT = (
    "export GIT_AUTHOR_DATE=2024-01-05T12:00:00Z GIT_COMMITTER_DATE=2024-01-05T12:00:00Z "
    "&& git init -q -b main --object-format=sha1 . && git config user.email dev@example.org "
    "&& git config user.name Dev && git config commit.gpgsign false"
)
"""Makes the same commits, with the same hashes, every time: a history that was made up instead has others."""
_CHANGE_A = "68713a4e6addc50635e4a7f80c73b5ac6af36c1d"
_UPPER, _MORE = "df53e5f92c30c5d428e32bb4cd9b1b3f3e31bed4", "668af1654c15a65fb219828620e2d0e718a4356d"
_CLEAN = _said("git -c core.fsmonitor=false status --porcelain --untracked-files=all", "")


def _calls(module: str, *expected: tuple[str, Any]) -> list[dict[str, Any]]:
    """Checks that expressions over a module of the task have these values."""
    return [
        _said(f'{_PY} "{_IMPORT}; from {module} import *; print(repr({expression}))"', repr(value))
        for expression, value in expected
    ]


def _files() -> list[Row]:
    logs = {f"logs/{day}/{name}.log": f"{name} on {day}\n" for day in ("mon", "tue", "wed") for name in ("web", "db")}
    return [
        {
            "name": "sort-by-extension",
            "question": "Move every file of the folder `inbox` into a folder below `sorted` that is named after the "
            "file's extension in lower case: `inbox/a.TXT` becomes `sorted/txt/a.TXT`. Files without an extension go "
            "to `sorted/none`. `inbox` must be empty afterwards.",
            "files": {f"inbox/{n}": n for n in ("a.TXT", "b.txt", "photo.jpeg", "notes", "x.tar.gz", "with space.md")},
            "solution": 'mkdir -p sorted; cd inbox; for f in *; do case $f in *.*) e=$(printf %s "${f##*.}" | '
            'tr A-Z a-z);; *) e=none;; esac; mkdir -p ../sorted/$e; mv "$f" ../sorted/$e/; done',
            "checks": [
                _said(
                    "cd sorted && find . -type f | LC_ALL=C sort",
                    "./gz/x.tar.gz\n./jpeg/photo.jpeg\n./md/with space.md\n./none/notes\n./txt/a.TXT\n./txt/b.txt",
                ),
                _said("find inbox -type f | wc -l", "0"),
                _said("cat 'sorted/md/with space.md'", "with space.md"),
            ],
        },
        {
            "name": "collect-logs",
            "question": "The folder `logs` holds a folder for each day. Join all files called `web.log` into `web.log` "
            "in the current folder, in the order mon, tue, wed, and delete all files called `db.log`. Leave the other "
            "files as they are.",
            "files": logs,
            "solution": "cat logs/mon/web.log logs/tue/web.log logs/wed/web.log > web.log; find logs -name db.log -delete",
            "checks": [
                _said("cat web.log", "web on mon\nweb on tue\nweb on wed"),
                _said(
                    "find logs -type f | LC_ALL=C sort", "\n".join(f"logs/{d}/web.log" for d in ("mon", "tue", "wed"))
                ),
            ],
        },
        {
            "name": "permissions",
            "question": "Make every file below `bin` that begins with `#!` executable for everybody, and make all others "
            "below `bin` not executable for anybody. Do not change what is in the files.",
            "files": {
                "bin/run": "#!/bin/sh\necho run\n",
                "bin/tool.py": "#!/usr/bin/env python3\n",
                "bin/README": "x\n",
            }
            | {"bin/sub/go": "#!/bin/sh\n", "bin/sub/data": "\n#!/bin/sh\n"},
            "setup": ["chmod 755 bin/README bin/sub/data", "chmod 644 bin/run bin/tool.py bin/sub/go"],
            "solution": "find bin -type f | while read -r f; do if [ \"$(head -c 2 $f)\" = '#!' ]; then chmod a+x $f; "
            "else chmod a-x $f; fi; done",
            "checks": [
                _said("find bin -type f -perm -111 | LC_ALL=C sort", "bin/run\nbin/sub/go\nbin/tool.py"),
                _said("find bin -type f ! -perm /111 | LC_ALL=C sort", "bin/README\nbin/sub/data"),
                _said(
                    "cat bin/README bin/run bin/sub/data bin/sub/go bin/tool.py",
                    "x\n#!/bin/sh\necho run\n\n#!/bin/sh\n#!/bin/sh\n#!/usr/bin/env python3",
                ),
                _said("bin/run", "run"),
            ],
        },
    ]


def _text() -> list[Row]:
    sales = "date,shop,amount\n2024-01-03,north,10\n2024-01-09,south,7\n2024-02-01,north,5\n2024-02-02,south,20\n"
    access = "".join(
        f"10.0.0.{host} - - [{day:02}/Mar/2024] GET /{page} {status}\n"
        for host, day, page, status in (
            *((1, 1, "a", 200), (2, 1, "b", 404), (1, 2, "a", 200), (3, 2, "c", 500), (2, 3, "a", 404)),
            *((1, 3, "b", 200), (2, 4, "b", 404), (3, 4, "a", 200)),
        )
    )
    return [
        {
            "name": "sum-by-shop",
            "question": "`sales.csv` has the columns date, shop and amount. Write `totals.csv` with the header "
            "`shop,total` and one line for each shop, the largest total first.",
            "files": {"sales.csv": sales},
            "solution": "{ echo shop,total; tail -n +2 sales.csv | awk -F, '{t[$2] += $3} END {for (s in t) "
            'print s "," t[s]}\' | sort -t, -k2,2nr; } > totals.csv',
            "checks": [_said("cat totals.csv", "shop,total\nsouth,27\nnorth,15")],
        },
        {
            "name": "failing-hosts",
            "question": "`access.log` has one request a line; the last word is the status. Write the addresses that had "
            "at least two requests with a status of 400 or more into `failing.txt`, each with its number of such "
            "requests after a space, sorted by address.",
            "files": {"access.log": access},
            "solution": "awk '$NF >= 400 {n[$1]++} END {for (h in n) if (n[h] >= 2) print h, n[h]}' access.log | sort "
            "> failing.txt",
            "checks": [_said("cat failing.txt", "10.0.0.2 3")],
        },
        {
            "name": "rename-setting",
            "question": "In all `.ini` files below `conf`, the setting `timeout` must be called `timeout_s`. Settings "
            "whose name only contains the word (such as `idle_timeout`), comments (lines that begin with `#`) and values "
            "stay as they are.",
            "files": {
                "conf/a.ini": "timeout = 5\nidle_timeout = 9\n# timeout = old\nname = timeout\n",
                "conf/deep/b.ini": "[x]\ntimeout=7\n",
                "conf/c.txt": "timeout = 1\n",
            },
            "solution": "find conf -name '*.ini' -exec sed -i -E 's/^timeout([ =])/timeout_s\\1/' {} +",
            "checks": [
                _said("cat conf/a.ini", "timeout_s = 5\nidle_timeout = 9\n# timeout = old\nname = timeout"),
                _said("cat conf/deep/b.ini", "[x]\ntimeout_s=7"),
                _said("cat conf/c.txt", "timeout = 1"),
            ],
        },
    ]


def _git_tasks() -> list[Row]:
    history = [
        f"{_GIT} && echo one > a.txt && git add . && git commit -qm 'Add a' && echo two > a.txt && git commit -qam "
        "'Change a' && echo secret > key.txt && git add . && git commit -qm 'Add key'"
    ]
    branches = [
        f"{_GIT} && printf 'a\\nb\\nc\\n' > list.txt && git add . && git commit -qm base && git checkout -qb feature && "
        "printf 'a\\nB\\nc\\n' > list.txt && git commit -qam upper && git checkout -q main && "
        "printf 'a\\nb\\nc\\nd\\n' > list.txt && git commit -qam more"
    ]
    return [
        {
            "name": "merge-branch",
            "question": "This is a git repository. Merge the branch `feature` into `main` so that the changes of both are "
            "kept, and stay on `main` with nothing left to commit.",
            "setup": branches,
            "solution": "git merge -q feature -m merge || { printf 'a\\nB\\nc\\nd\\n' > list.txt; git commit -qam merge; }",
            "checks": [
                _said("cat list.txt", "a\nB\nc\nd"),
                _said("git show main:list.txt", "a\nB\nc\nd"),
                _said("git branch --show-current", "main"),
                _CLEAN,
                *(
                    _said(f"git merge-base --is-ancestor {each} main && echo merged", "merged")
                    for each in (_UPPER, _MORE)
                ),
            ],
        },
        {
            "name": "undo-last-commit",
            "question": "The last commit of this git repository added `key.txt` by mistake. Make the branch `main` point to "
            "the commit before it. The file must stay in the folder, must not be tracked, and must be ignored by git "
            "through a `.gitignore` that is committed as one further commit with the message `Ignore key`.",
            "setup": history,
            "solution": "git reset -q HEAD~1; echo key.txt > .gitignore; git add .gitignore; git commit -qm 'Ignore key'",
            "checks": [
                _said("git log --format=%s main", "Ignore key\nChange a\nAdd a"),
                _said("git rev-parse main~1", _CHANGE_A),
                _said("cat key.txt", "secret"),
                _said("git check-ignore -v key.txt | cut -d: -f1", ".gitignore"),
                _said("git ls-files | LC_ALL=C sort", ".gitignore\na.txt"),
                _CLEAN,
            ],
        },
        {
            "name": "find-commit",
            "question": "One commit of this git repository changed the text of `a.txt` from `one` to `two`. Write its full "
            "hash into `answer.txt`, and nothing else.",
            "setup": history,
            "solution": "git log --format=%H --grep='Change a' > answer.txt",
            "checks": [_said("cat answer.txt", _CHANGE_A)],
        },
    ]


def _bugs() -> list[Row]:
    return [
        {
            "name": "median-bug",
            "question": "`median` in `stats.py` is wrong for lists of even length, and it changes the list it is given. "
            "Fix both.",
            "files": {
                "stats.py": "def median(values):\n    values.sort()\n    return values[len(values) // 2]\n",
            },
            "solution": "cat > stats.py <<'END'\ndef median(values):\n    found = sorted(values)\n    half = len(found) // "
            "2\n    if len(found) % 2:\n        return found[half]\n    return (found[half - 1] + found[half]) / 2\nEND",
            "checks": _calls(
                "stats",
                *(("median([1, 2, 3, 4])", 2.5), ("median([5, 1, 9])", 5), ("median([7])", 7)),
                ("(lambda v: (median(v), v))([3, 1, 2])", (2, [3, 1, 2])),
            ),
        },
        {
            "name": "interval-bug",
            "question": "`merge` in `intervals.py` takes a list of pairs and must return the merged pairs in order; pairs "
            "that touch, such as (1, 2) and (2, 3), belong together, and one that lies within another disappears. It is "
            "wrong for some inputs. Fix it.",
            "files": {
                "intervals.py": "def merge(pairs):\n    merged = []\n    for low, high in pairs:\n        if merged and low < "
                "merged[-1][1]:\n            merged[-1] = (merged[-1][0], high)\n        else:\n            "
                "merged.append((low, high))\n    return merged\n",
            },
            "solution": "sed -i 's/in pairs:/in sorted(pairs):/; s/low < merged/low <= merged/; s/\\[0\\], high)/[0], "
            "max(high, merged[-1][1]))/' intervals.py",
            "checks": _calls(
                "intervals",
                ("merge([(1, 2), (2, 3)])", [(1, 3)]),
                ("merge([(5, 6), (1, 9)])", [(1, 9)]),
                ("merge([(1, 9), (2, 3), (10, 11)])", [(1, 9), (10, 11)]),
                ("merge([])", []),
            ),
        },
        {
            "name": "script-bug",
            "question": "`backup.sh` must copy each file named on its command line to `<name>.bak`. It breaks for names "
            "with spaces, and its exit status must be 1 if any file is missing, after it has copied the others. Fix it.",
            "files": {"backup.sh": "#!/bin/sh\nfor f in $*; do\n  cp $f $f.bak\ndone\nexit 0\n"},
            "setup": ["chmod +x backup.sh"],
            "solution": 'printf \'#!/bin/sh\\nstatus=0\\nfor f in "$@"; do\\n  cp -- "$f" "$f.bak" || status=1\\ndone\\n'
            "exit $status\\n' > backup.sh",
            "checks": [
                _said("echo 1 > 'a b'; echo 2 > c; ./backup.sh 'a b' c && cat 'a b.bak' c.bak", "1\n2"),
                _said("echo 3 > d; ./backup.sh missing d 2>/dev/null; echo $?; cat d.bak", "1\n3"),
            ],
        },
    ]


def rows() -> list[Row]:
    """All tasks, always in this order."""
    return [*_files(), *_text(), *_git_tasks(), *_bugs()]
