"""The pools of a scheduler by their names: which there are, and the worker and the hand that each gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial

from tickless.checks import listed, plain_text
from tickless.core.record import RunRecord
from tickless.dispatcher import Dispatcher
from tickless.errors import PoolError, ScheduleError, shown
from tickless.instants import Clock
from tickless.observe.text import error_line
from tickless.policies import Limit
from tickless.pools import Hand, Pool, is_gone, pool_of
from tickless.pools.drain import DrainHand
from tickless.pools.single import SingleHand
from tickless.states import DEFAULT_POOL
from tickless.stores import Store
from tickless.worker import STAY_RUNS, Worker


def pools_of(
    one: Executor | Pool | None, several: Mapping[str, Executor | Pool] | None, slots: int | None
) -> tuple[dict[str, Pool], ThreadPoolExecutor | None]:
    """The pools by name, the default one first, and the executor that was made where none was given.

    `slots` is for the default pool.

    Raises PoolError for what is no pool, for a dict without "default", and for one executor under two names.
    """
    if several is None:
        own = ThreadPoolExecutor(slots, thread_name_prefix="tickless-worker") if one is None else None
        return {DEFAULT_POOL: pool_of(own or one, slots)}, own  # type: ignore[arg-type]  # one of the two is there
    if one is not None:
        raise PoolError(f'pool={shown(one)}: there is pools={shown(several)} too; give it there, as "default"')
    return _named(several, slots), None


def _named(given: Mapping[str, Executor | Pool], slots: int | None) -> dict[str, Pool]:
    if not isinstance(given, Mapping):
        raise PoolError(f'pools={shown(given)}: needs a dict: {{"default": ..., "cpu": Pool(executor, slots=2)}}')
    pools: dict[str, Pool] = {}
    for key, pool in given.items():
        name = plain_text(key)
        if not name:
            raise PoolError(f"pools={{{shown(key)}: ...}}: a name is a text of at least one character")
        try:
            pools[name] = pool_of(pool, slots if name == DEFAULT_POOL else None)
        except PoolError as error:
            raise PoolError(f"pools={{{shown(name)}: ...}}: {error}") from None
    if DEFAULT_POOL not in pools:
        raise PoolError(f'pools={{{", ".join(map(shown, pools))}}}: there is no "default", for tasks that name none')
    owners: dict[int, str] = {}
    for name, pool in pools.items():
        other = owners.setdefault(id(pool.executor), name)
        if other != name:
            raise PoolError(
                f"pools={{{shown(other)}, {shown(name)}}}: are one executor, whose slots would be counted twice; give "
                "each its own, or have both use one name and a limit"
            )
    return {DEFAULT_POOL: pools.pop(DEFAULT_POOL), **pools}


def limits_of(given: Iterable[Limit]) -> dict[str, Limit]:
    """The limits by name. Raises ScheduleError for what is none, and for two of one name."""
    limits: dict[str, Limit] = {}
    for limit in listed("limits", given):
        if type(limit) is not Limit:
            raise ScheduleError(f'limits=[{shown(limit)}]: needs a Limit, e.g. Limit("db", running=2)')
        if limit.name in limits:
            raise ScheduleError(f"limits: two have the name {shown(limit.name)}; choose another for one of them")
        limits[limit.name] = limit
    return limits


def feed(dispatcher: Dispatcher, pools: Mapping[str, Pool], store: Store, clock: Clock) -> tuple[Worker, ...]:
    """Give the dispatcher a hand for each pool. Gives the workers that the hands call."""
    hands: dict[str, Hand] = {}
    workers = []
    for name, pool in pools.items():
        look = dispatcher.look if name == DEFAULT_POOL else partial(dispatcher.look, pool=name)
        stay_runs = getattr(pool.executor, "tickless_stay_runs", STAY_RUNS)
        keeps = partial(_keeps, store, dispatcher, name)
        worker = Worker(store, clock, look, stay_runs, name, keeps)
        hands[name] = _hand_for(pool, name, store, clock, worker, dispatcher.ring)
        workers.append(worker)
    dispatcher.feed(hands)
    return tuple(workers)


def _hand_for(pool: Pool, name: str, store: Store, clock: Clock, worker: Worker, more: Callable[[], None]) -> Hand:
    """The hand for the kind of pool that was given."""
    own: Callable[[Store, Worker], Hand] | None = getattr(pool.executor, "tickless_hand", None)
    if own is not None:
        return own(store, worker)
    # The default pool is the only one of most schedulers, so it is asked without a call in between.
    ready = store.ready_runs if name == DEFAULT_POOL else partial(store.ready_runs, name)
    if pool.drained:
        reject = partial(_reject, store, clock, worker.keeps, () if name == DEFAULT_POOL else (name,))
        return DrainHand(pool, stay=worker.stay, ready=ready, reject=reject, more=more)
    return SingleHand(pool, desk=worker, ready=ready, more=more)


def _keeps(store: Store, dispatcher: Dispatcher, pool: str, error: BaseException, run: RunRecord | None) -> bool:
    """Whether the runs of a pool that has raised this, and `run` that it was to have, go on waiting."""
    if not is_gone(error):
        return False
    are_kept = store.pool_down(run, pool)
    dispatcher.note_down(pool, error, are_kept)
    return are_kept


def _reject(
    store: Store,
    clock: Clock,
    keeps: Callable[[BaseException, RunRecord | None], bool],
    of: tuple[str, ...],
    error: BaseException,
) -> bool:
    if keeps(error, None):
        return False
    return store.reject(f"the pool did not take the run: {error_line(error)}", clock.now(), *of)
