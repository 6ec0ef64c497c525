"""The table a run ends with."""

from __future__ import annotations

from typing import Any

from verifiers.results.summary import Summary


def rows(summary: Summary, *, max_unscored: float) -> list[tuple[str, str]]:
    """Name and text of every line of the table."""
    table = [("reward", _reward(summary))]
    table += [(f"  {name}", _number(value)) for name, value in summary.metrics.items()]
    table.append(("scored", f"{summary.n_scored} of {summary.n} rollouts, {summary.n_examples} tasks"))
    if summary.n_unscored:
        table += _unscored(summary, max_unscored)
    if summary.is_binary:
        passes = ", ".join(f"pass@{k} {_number(summary.pass_at(k))}" for k in summary.k_values if k > 1)
        table += [("at least one right", passes)] if passes else []
    if set(summary.stop_reasons) != {"done"}:
        table.append(("ended by", _counts(summary.stop_reasons)))
    if summary.truncated:
        table.append(("cut off", f"{summary.truncated} replies at the token limit"))
    usage = summary.usage
    tokens = f"{usage.prompt_tokens:,} prompt, {usage.completion_tokens:,} sampled"
    table.append(("tokens", tokens if usage.cost_usd is None else f"{tokens}, ${usage.cost_usd:.4f}"))
    table.append(("wall time", _duration(summary.wall_s)))
    table.append(("results", summary.run_dir))
    return table


def print_table(summary: Summary, *, max_unscored: float, harness: str = "") -> None:
    """To stdout; plain text where that is no terminal.

    Args:
        harness: the program around the model, where it is not the environment's own: the numbers are of both.
    """
    from rich.markup import escape
    from rich.table import Table

    title = " · ".join(name for name in (summary.env, summary.model, harness) if name)
    table = Table(title=escape(title), title_justify="left", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows(summary, max_unscored=max_unscored):
        table.add_row(escape(name), escape(text))
    print_whole(table)


def print_whole(table: Any) -> None:
    """To stdout; where that is no terminal, nothing breaks its lines: paths stay whole."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 1000
    console.print(table)


def _reward(summary: Summary) -> str:
    if summary.reward is None:
        return "none: nothing could be scored"
    interval = summary.reward_ci95
    if interval is None:
        return f"{summary.reward:.4f} (no interval: fewer than two scored tasks)"
    return f"{summary.reward:.4f} (95% interval {interval.low:.4f} to {interval.high:.4f})"


def _unscored(summary: Summary, max_unscored: float) -> list[tuple[str, str]]:
    share = summary.n_unscored / summary.n
    mark = f", over the allowed {max_unscored:.0%}" if share > max_unscored else ""
    lines = [("unscored", f"{summary.n_unscored} ({share:.0%}{mark}): {_counts(summary.unscored_by_kind)}")]
    lines += [(f"  {kind}", message[:300]) for kind, message in sorted(summary.first_messages.items())]
    limits = summary.reward_bounds
    if limits is not None:
        lines.append(("  reward if scored", f"{limits.low:.4f} to {limits.high:.4f}, at worst and at best"))
    return lines


def what_helps(summary: Summary) -> str:
    """What to do about rollouts that are unscored: whether the same command can end better."""
    again = "repeating the command tries these again"
    if not summary.n_lasting:
        return again
    reason = " ".join(summary.first_lasting.split())[:600]
    if summary.n_lasting < summary.n_unscored:
        return f"{again}, but {summary.n_lasting} of them fail until this is put right: {reason}"
    return f"repeating the command helps only once this is put right: {reason}"


def _counts(counts: Any) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _number(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.4f}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "not known"
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)} min {rest:.0f} s" if minutes else f"{rest:.1f} s"
