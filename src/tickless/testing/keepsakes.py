"""Works that any durable store takes: in the tests of one process, closures and lambdas may be stored, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Keepsakes:
    """Stands in for `stores.registered.Works`: every work gets a name, and is kept here under it, as is any value."""

    names_no_tasks = True

    def __init__(self) -> None:
        self._works: list[Callable[..., Any]] = []
        self._values: list[Any] = []

    def form_of(self, value: Any) -> dict[str, Any]:
        """What is stored of a value that has no form of its own."""
        self._values.append(value)
        return {"$": "kept", "number": len(self._values) - 1}

    def value_of(self, form: dict[str, Any]) -> Any:
        return self._values[form["number"]]

    def name_of(self, work: Callable[..., Any]) -> str:
        for number, one in enumerate(self._works):
            if one is work:
                return f"kept:{number}"
        self._works.append(work)
        return f"kept:{len(self._works) - 1}"

    def resolve(self, name: str) -> Callable[..., Any]:
        return self._works[int(name.partition(":")[2])]
