"""The children of a task that is loaded, in place of the list that the machine keeps of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tickless.core.record import TaskRecord

if TYPE_CHECKING:
    from tickless.stores.sql.session import Session


class Kin:
    """The children of a task that is loaded: read when somebody asks for them, which is when it ends."""

    __slots__ = ("_items", "_parent", "_session")

    def __init__(self, session: Session, parent: TaskRecord) -> None:
        self._session = session
        self._parent = parent
        self._items: list[Any] | None = None

    def _all(self) -> list[Any]:
        if self._items is None:
            self._items = [loaded.task for loaded in self._session.children_of(self._parent._seq)]
        return self._items

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        """Those that are here: `core.graph` asks before it looks whether any may go."""
        return 0 if self._items is None else len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all())

    def __setitem__(self, place: Any, value: Any) -> None:
        self._all()[place] = value

    def append(self, child: Any) -> None:
        if self._items is not None:
            self._items.append(child)
        self._session.new_links.setdefault(self._parent._seq, []).append(child)

    def remove(self, child: Any) -> None:
        if self._items is not None:
            self._items.remove(child)
        self._session.new_links[self._parent._seq].remove(child)
