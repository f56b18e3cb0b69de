"""Hypothesis strategies that several test files share: instants, spans, rules."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tickless.instants import MAX_INSTANT, MIN_INSTANT, SECOND_US, Instant, datetime_of
from tickless.rules import Rule, after, at, every

YEAR_US = 31_556_952 * SECOND_US
NOW = Instant(1_790_000_000 * SECOND_US)
"""2026-09-21, for tests that need some instant and do not care which."""


def instants(low: int = MIN_INSTANT, high: int = MAX_INSTANT) -> SearchStrategy[Instant]:
    """Any instant of the calendar, often one at an edge or in our time."""
    edges = [edge for edge in (low, low + 1, -1, 0, 1, NOW, high - 1, high) if low <= edge <= high]
    ours = st.integers(max(low, 0), min(high, 130 * YEAR_US))
    return st.one_of(st.sampled_from(edges), ours, st.integers(low, high)).map(Instant)


def spans_us(low: int = 0, high: int = 100 * YEAR_US) -> SearchStrategy[int]:
    """Spans in microseconds: short ones as often as long ones."""
    short = st.integers(low, max(low, min(high, 10 * SECOND_US)))
    return st.one_of(short, st.integers(low, high))


def spans(low_us: int = 0, high_us: int = 100 * YEAR_US) -> SearchStrategy[timedelta]:
    return spans_us(low_us, high_us).map(lambda us: timedelta(microseconds=us))


def ats() -> SearchStrategy[Rule]:
    return instants().map(lambda instant: at(datetime_of(instant)))


def afters() -> SearchStrategy[Rule]:
    return spans().map(after)


def aligned() -> SearchStrategy[Rule]:
    return spans(1_000).map(every)


def anchored() -> SearchStrategy[Rule]:
    anchors = st.one_of(st.just("epoch"), instants().map(datetime_of))
    return st.builds(lambda interval, anchor: every(interval, anchor=anchor), spans(1_000), anchors)


def sliding() -> SearchStrategy[Rule]:
    return spans(1_000).map(lambda interval: every(interval, sliding=True))


def rules() -> SearchStrategy[Rule]:
    """The rules of elapsed time and of instants, as a user writes them. tests/rules/wall_rules.py has the others."""
    return st.one_of(ats(), afters(), aligned(), anchored(), sliding())
