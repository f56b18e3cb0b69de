"""Draws the decision table into docs/policies.md. To draw it anew after the table has changed:

python -m tests.policies.drawing
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.policies.table import EVENTS, ROWS, STATES, TOPICS, WORDS, Row, Steps
from tests.test_docs import ROOT, drawn_anew

PAGE = ROOT / "docs" / "policies.md"
HEAD = "| | task, policy | state | event | outcome | why |"
TEXTS = {
    "retry_at": "next attempt at {}",
    "waiting_for": "waits for a permit of `{}`",
    "skipped_now": "{} so far will be skipped",
    "zombies": "zombies: {}",
    "limit": "limit: {}",
    "answer": "answer: {}",
    "pause_reason": "pause reason: {}",
}


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{name}={_value(one)}" for name, one in value.items()) + ")"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _options(policy: Mapping[str, Any]) -> str:
    """As one would write them in a call."""
    made = []
    for name, value in policy.items():
        text = _value(value)
        if name == "retry":
            text = f"Retry{text}".replace('"', "")
        made.append(f"{name}={'f' if name == 'on_failure' else text}")
    return f"`{', '.join(made)}`" if made else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _who(row: Row) -> str:
    """What the task is: its rule where it is not the usual one, its policy, its parents."""
    parts = [f"`{row.task}`" if row.task != "every 60" else "", _options(row.policy)]
    for number, policy in enumerate(row.parents, 1):
        parts.append(f"parent{'' if len(row.parents) == 1 else f' {number}'}: {_options(policy) or 'plain'}")
    if row.update:
        parts.append(f"update: {_options(row.update)}")
    return "; ".join(part for part in parts if part)


def _outcome(outcome: Mapping[str, Any]) -> str:
    lines = [f"**{outcome['state']}**", *outcome.get("runs", ())]
    if "next" in outcome:
        lines.append(f"next fire: {outcome['next']}")
    for name, value in outcome.items():
        if name in TEXTS and value not in (None, 0):
            lines.append(TEXTS[name].format(value))
    if outcome.get("asked"):
        lines.append("asked to stop")
    if outcome.get("paused") and "(paused)" not in outcome["state"]:
        lines.append("is paused")
    if "handled" in outcome:
        lines.append(f"`on_failure` called with: {', '.join(outcome['handled']) or 'nothing'}")
    if "events" in outcome:
        lines.append(f"events: {', '.join(outcome['events']) or 'none'}")
    return "<br>".join(lines)


def _legend(what: str, meanings: Mapping[str, Steps]) -> Iterator[str]:
    yield from (f"| {what} | is reached by |", "|---|---|")
    for name, steps in meanings.items():
        yield f"| {name} | {', '.join(steps) or 'nothing: it is as it was scheduled'} |"
    yield ""


def lines() -> Iterator[str]:
    yield from _legend("state", STATES)
    yield from ("| step | what it is |", "|---|---|")
    yield from (f"| {word} | {_cell(meaning)} |" for word, meaning in WORDS.items())
    yield ""
    yield from _legend("event", EVENTS)
    for topic, text in TOPICS.items():
        rows = [row for row in ROWS if row.topic == topic]
        yield from (
            f"### {text}",
            "",
            HEAD,
            "|---|---|---|---|---|---|",
        )
        for row in rows:
            why = f"{row.why} (**not so yet**: {row.disagrees})" if row.disagrees else row.why
            cells = (str(row.number), _who(row), row.state, row.event, _outcome(row.outcome), why)
            yield f"| {' | '.join(map(_cell, cells))} |"
        yield ""


def decision_table() -> str:
    return "\n".join(lines()).rstrip()


def drawn() -> str:
    return drawn_anew(PAGE.read_text("utf-8"), "the decision table", decision_table)


def is_fresh() -> bool:
    return drawn() == PAGE.read_text("utf-8")


if __name__ == "__main__":
    PAGE.write_text(drawn(), "utf-8")
