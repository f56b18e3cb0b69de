"""The experiments on the in-memory scheduler: who is measured, with what, and what is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness import Experiment, Figures, Goal, Measure

LIMIT, OURS, APS, SCHED, ASYNCIO = "limit", "tickless", "APScheduler", "sched", "asyncio"
ONE_CORE, OBSERVED = "tickless, one core", "tickless, observer of everything"


def ratio(kind: str, contender: str, over: str) -> Callable[[Figures], float]:
    """How many times the other's figure."""
    return lambda figures: figures.get(contender, kind) / figures.get(over, kind)


def more(contender: str, over: str) -> Callable[[Figures], float]:
    """By how many microseconds a run costs more than the other's."""
    return lambda figures: 1e6 / figures.get(contender, "per_s") - 1e6 / figures.get(over, "per_s")


def plain(kind: str, contender: str = OURS) -> Callable[[Figures], float]:
    return lambda figures: figures.get(contender, kind)


def all_experiments(quick: bool) -> list[Experiment]:
    """In the order of the table. Quick: an impression in a minute or two, with smaller numbers and shorter spans."""
    sizes = [1_000, 100_000] if quick else [1_000, 100_000, 1_000_000]
    return [
        *[_dispatch(count, quick) for count in (10_000, 100_000)],
        _policies(10_000),
        _now(20_000 if quick else 100_000),
        *[_insert(count, quick) for count in sizes],
        *[_memory(count) for count in sizes[1:]],
        _cancel(100_000, quick),
        _churn(10_000, 100_000 if quick else 1_000_000),
        _lateness(400 if quick else 2_000, 2.0 if quick else 10.0),
        _recurring(1_000, 0.010, 1.0 if quick else 5.0),
        _idle(10_000, 2.0 if quick else 10.0),
        *[_dependencies(shape, 10_000) for shape in ("chain", "fan", "random")],
        _simulate(20_000 if quick else 100_000),
    ]


def _dispatch(count: int, quick: bool) -> Experiment:
    params, warm = {"count": count}, {"count": 500}
    aps_max = 1 if count > 10_000 else 99
    contenders = {
        LIMIT: Measure("limit.dispatch", params, warm),
        OURS: Measure("ours.dispatch", params, warm),
        ONE_CORE: Measure("ours.dispatch", params, warm, pinned=True),
        OBSERVED: Measure("ours.dispatch", params | {"observed": True}, warm),
        "limit, one core": Measure("limit.dispatch", params, warm, pinned=True),
        f"{SCHED} + executor": Measure("stdlib_peers.sched_dispatch", params, warm),
        f"{SCHED}, no executor": Measure("stdlib_peers.sched_dispatch", params | {"inline": True}, warm),
        f"{ASYNCIO} + executor": Measure("stdlib_peers.asyncio_dispatch", params, warm),
    }
    if not quick or count <= 10_000:
        contenders[APS] = Measure("apscheduler_peer.dispatch", params, warm, rounds_max=aps_max)
    return Experiment(
        f"dispatch-{short(count)}",
        f"Dispatch, {count:,} due at once",
        contenders,
        [
            Goal("x the limit", ratio("per_s", OURS, LIMIT), 3, 4.5),
            Goal("x APScheduler", ratio("per_s", OURS, APS), 12),
            Goal("two cores x one pinned core", ratio("per_s", OURS, ONE_CORE), 0.8),
            Goal("with one observer of everything, x the limit", ratio("per_s", OBSERVED, LIMIT), 1.3),
        ],
    )


def _policies(count: int) -> Experiment:
    params, warm = {"count": count}, {"count": 500}
    contenders = {OURS: Measure("ours.dispatch", params, warm)}
    goals = []
    for policy in ("retry", "timeout", "limit", "rate"):
        name = f"{OURS}, {policy}"
        contenders[name] = Measure("ours.dispatch", params | {"policy": policy}, warm)
        goals.append(Goal(f"{policy}, more a run", more(name, OURS), 3, at_least=False, unit=" µs"))
    failing, retried = f"{OURS}, fails", f"{OURS}, fails and is tried again"
    contenders[failing] = Measure("ours.retried", params | {"again": False}, warm | {"again": False})
    contenders[retried] = Measure("ours.retried", params | {"again": True}, warm | {"again": True})
    goals.append(Goal("a retry that happens, more an attempt", more(retried, failing), 3, at_least=False, unit=" µs"))
    return Experiment("policies", f"What a policy costs, dispatch of {count:,}", contenders, goals)


def _now(count: int) -> Experiment:
    params, warm, fewer = {"count": count}, {"count": 500}, {"count": min(count, 10_000)}
    return Experiment(
        "now",
        f"Schedule now until all have run, {count:,} (APScheduler {fewer['count']:,})",
        {
            "limit, a loop of submit": Measure("limit.now", params, warm),
            OURS: Measure("ours.now", params, warm),
            "tickless, handles kept": Measure("ours.now", params | {"handles": True}, warm),
            f"{ASYNCIO} run_in_executor": Measure("stdlib_peers.asyncio_now", params, warm),
            APS: Measure("apscheduler_peer.now", fewer, warm),
        },
        [Goal("x a loop of submit", ratio("per_s", OURS, "limit, a loop of submit"), 1.8, 2.5)],
    )


def _insert(count: int, quick: bool) -> Experiment:
    params: dict[str, Any] = {"count": count, "builds": 51 if count == 1_000 else 1}
    many, listed = "tickless schedule_many, calls made as it reads", "tickless schedule_many, calls in a list"
    contenders = {
        LIMIT: Measure("limit.insert", params),
        "limit without the lock": Measure("limit.insert_unlocked", params),
        OURS: Measure("ours.insert", params),
        "tickless, rules made in the loop": Measure("ours.insert_with_rules", params),
        "tickless, on a running scheduler": Measure("ours.insert", params | {"started": True}),
        many: Measure("ours.insert_many", params),
        listed: Measure("ours.insert_many", params | {"beforehand": True}),
        SCHED: Measure("stdlib_peers.sched_insert", params),
        f"{ASYNCIO} call_later": Measure("stdlib_peers.asyncio_insert", params),
    }
    goals = [
        Goal("x the limit", ratio("per_s", OURS, LIMIT), 0.3, 0.45),
        Goal("schedule_many x the limit", ratio("per_s", many, LIMIT), 0.55, 0.75),
        Goal("x sched", ratio("per_s", OURS, SCHED), 0.65),
    ]
    if count <= 100_000:
        goals.append(Goal("x APScheduler", ratio("per_s", OURS, APS), 20))
        if not (quick and count > 1_000):
            few = {"count": count, "builds": 5 if count == 1_000 else 1}
            rounds_max = 1 if count > 1_000 else 99
            contenders[APS] = Measure("apscheduler_peer.insert", few, rounds_max=rounds_max)
            helped = Measure("apscheduler_peer.insert_helped", few, rounds_max=rounds_max)
            contenders["APScheduler, paused, triggers made before"] = helped
    return Experiment(f"insert-{short(count)}", f"Insert, {count:,} from empty, random delays", contenders, goals)


def _memory(count: int) -> Experiment:
    exact = count <= 100_000
    params, how = {"count": count, "exact": exact}, "tracemalloc" if exact else "growth of the process"
    own, with_id = "tickless, a rule each", "tickless, an id and an every() each"
    contenders = {
        LIMIT: Measure("limit.memory", params),
        "tickless, one rule for all": Measure("ours.memory", params | {"kind": "shared"}),
        own: Measure("ours.memory", params | {"kind": "own"}),
        with_id: Measure("ours.memory", params | {"kind": "id"}),
        SCHED: Measure("stdlib_peers.sched_memory", params),
    }
    if exact:
        contenders[APS] = Measure("apscheduler_peer.memory", params, rounds_max=1)
    return Experiment(
        f"memory-{short(count)}",
        f"Memory per pending task at {count:,}, rule and handle included ({how})",
        contenders,
        [
            Goal("without an id, a rule each", plain("bytes", own), 420, 340, at_least=False, unit=" bytes"),
            Goal("an id and a rule each", plain("bytes", with_id), 600, at_least=False, unit=" bytes"),
        ],
    )


def _cancel(count: int, quick: bool) -> Experiment:
    params, inserts = {"count": count}, "limit's inserts"
    contenders = {
        inserts: Measure("limit.insert", params),
        OURS: Measure("ours.cancel", params),
        "tickless, in random order": Measure("ours.cancel", params | {"shuffled": True}),
        f"{SCHED} (200 of them)": Measure("stdlib_peers.sched_cancel", params | {"cancels": 200}),
    }
    if not quick:
        contenders[APS] = Measure("apscheduler_peer.cancel", params, rounds_max=1)
    goals = [Goal("x the limit's inserts per second", ratio("per_s", OURS, inserts), 0.3, 0.5)]
    return Experiment("cancel", f"Cancel {count:,} of {count:,}", contenders, goals)


def _churn(live: int, rounds: int) -> Experiment:
    return Experiment(
        "churn",
        f"Cancel and reschedule {rounds:,} times, {live:,} live",
        {OURS: Measure("ours.churn", {"live": live, "rounds": rounds})},
        [
            Goal("most entries over (2 x live + 64)", plain("entries_share"), 1, at_least=False),
            Goal("growth", plain("grown_mb"), 4, at_least=False, unit=" MB"),
        ],
    )


def _lateness(count: int, span_s: float) -> Experiment:
    params = {"count": count, "span_s": span_s}

    def p99_asked(figures: Figures) -> float:
        limit_us = figures.get(LIMIT, "p99_us")
        return max(1.5, (limit_us + 1_000) / limit_us)

    return Experiment(
        "lateness",
        f"Lateness, {count:,} one-shots over {span_s:g} s (the best of the rounds)",
        {
            LIMIT: Measure("limit.lateness", params),
            OURS: Measure("ours.lateness", params),
            f"{SCHED} + executor": Measure("stdlib_peers.sched_lateness", params),
            f"{ASYNCIO} + executor": Measure("stdlib_peers.asyncio_lateness", params),
            APS: Measure("apscheduler_peer.lateness", params),
        },
        [
            Goal("p50 x the limit", ratio("p50_us", OURS, LIMIT), 1.3, 1.15, at_least=False),
            Goal("p99 x the limit (asked: 1.5x or 1 ms more)", ratio("p99_us", OURS, LIMIT), p99_asked, at_least=False),
        ],
        pick=min,
    )


def _recurring(tasks: int, interval_s: float, span_s: float) -> Experiment:
    params = {"tasks": tasks, "interval_s": interval_s, "span_s": span_s}
    return Experiment(
        "recurring",
        f"{tasks:,} recurring at {interval_s * 1_000:g} ms for {span_s:g} s",
        {
            LIMIT: Measure("limit.recurring", params),
            OURS: Measure("ours.recurring", params),
            "limit, phases spread": Measure("limit.recurring", params | {"staggered": True}),
            "tickless, phases spread": Measure("ours.recurring", params | {"staggered": True}),
            f"{ASYNCIO} + executor": Measure("stdlib_peers.asyncio_recurring", params),
            APS: Measure("apscheduler_peer.recurring", params, rounds_max=1),
        },
        [
            Goal("fires over the ideal", plain("share"), 0.99),
            Goal("CPU x the limit's", ratio("cpu_s", OURS, LIMIT), 0.5, 0.35, at_least=False),
        ],
    )


def _idle(pending: int, span_s: float) -> Experiment:
    return Experiment(
        "idle",
        f"Idle, {pending:,} pending, {span_s:g} s: all threads but the one that measures",
        {OURS: Measure("ours.idle", {"pending": pending, "span_s": span_s}, rounds_max=3)},
        [
            Goal("voluntary switches", plain("switches"), 0, at_least=False, unit=""),
            Goal("CPU", plain("cpu_us"), 0, at_least=False, unit=" us"),
        ],
    )


def _dependencies(shape: str, nodes: int) -> Experiment:
    params, warm = {"shape": shape, "nodes": nodes}, {"nodes": 300}
    peer = "graphlib + executor"
    ours_over_peer = Goal("x graphlib + executor", ratio("us_per_node", OURS, peer), 0.65, 0.45, at_least=False)
    absolute = Goal("a node", plain("us_per_node"), 7, 4, at_least=False, unit=" us")
    return Experiment(
        f"dependencies-{shape}",
        f"Dependencies, {shape}, {nodes:,} nodes, build and run",
        {
            peer: Measure("stdlib_peers.graphlib_dependencies", params, warm),
            OURS: Measure("ours.dependencies", params, warm),
            "tickless, runs while it is built": Measure("ours.dependencies", params | {"started": True}, warm),
        },
        [absolute if shape == "chain" else ours_over_peer],
    )


def _simulate(count: int) -> Experiment:
    params, warm, dispatch = {"count": count}, {"count": 500}, "limit's dispatch"
    return Experiment(
        "simulate",
        f"simulate, {count:,} tasks due at one instant, trace on",
        {dispatch: Measure("limit.dispatch", params, warm), OURS: Measure("ours.simulation", params, warm)},
        [Goal("x the limit's dispatch", ratio("per_s", OURS, dispatch), 1.3, 1.9)],
    )


def short(count: int) -> str:
    """1000 -> 1k, 1000000 -> 1M."""
    return f"{count // 1_000_000}M" if count >= 1_000_000 else f"{count // 1_000}k"
