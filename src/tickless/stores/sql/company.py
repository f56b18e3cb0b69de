"""The other processes on the file: who lives, who wants to be woken, and this one among them."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from tickless.stores.sql.doorbell import Doorbell
from tickless.stores.sql.owners import Owners
from tickless.stores.sql.sqlite import Database
from tickless.stores.sql.statements import load as load_statements

ASK = load_statements("queries.sql")


class Company:
    """Called under the store's lock; `join`, `leave` and `read` inside a transaction."""

    def __init__(self, db: Database, heard: Callable[[], None]) -> None:
        self._db = db
        self._heard = heard
        self._owners = Owners(db.path)
        self._bell = Doorbell(db.path.parent, db.path.name)
        self.number: int | None = None
        """This process among them; None: it neither runs anything nor waits for anything yet."""
        self._identity = ""
        self.others: set[int] = set()

    def join(self) -> int:
        """Be known to the others, hold the lock that says that this process lives, and hear when they ring.

        The number is a new one at each start, whatever the host and the process are called. Raises StoreError.
        """
        if self.number is None:
            self._identity = os.urandom(16).hex()
            who = (self._identity, socket.gethostname(), os.getpid())
            number: int = self._db.execute(ASK.join, who).fetchone()[0]
            self._owners.hold(number)  # before the others can see it
            self._bell.listen(number, self._heard)
            self.number = number
        return self.number

    def read(self) -> None:
        """Who is there now. Whoever listens is connected to before this process commits: its death is a ring, too."""
        rows = dict(self._db.execute(ASK.others).fetchall())
        if self.number is not None and rows.get(self.number) != self._identity:
            self._db.execute(ASK.stay, (self.number, self._identity, socket.gethostname(), os.getpid()))
        found = rows.keys() - {self.number}
        for number in self.others - found:
            self._bell.disconnect(number)
        for number in found:
            self._bell.connect(number)
        self.others = found

    def ring(self) -> None:
        """Have the others look."""
        if self.others:
            self._bell.ring(self.others)

    def dead(self) -> list[int]:
        """Those that live no more. A look at a lock of the kernel for each."""
        return [number for number in self.others if not self._owners.lives(number)]

    def lives(self, number: int) -> bool:
        return number == self.number or self._owners.lives(number)

    def bury(self, number: int) -> None:
        """Its runs were taken care of: it is not among the others any more."""
        self._db.execute(ASK.leave, (number,))
        self.others.discard(number)
        self._bell.disconnect(number)
        self._bell.remove(number)

    def hold_on(self) -> None:
        """Take the lock again, in case the program has opened and closed the file of the locks: that lets go of it."""
        if self.number is not None:
            self._owners.hold(self.number)

    def leave(self) -> None:
        """Nothing runs here any more. In a transaction; `close` afterwards."""
        if self.number is not None:
            self._db.execute(ASK.leave, (self.number,))

    def close(self) -> None:
        self._bell.close()
        self._owners.close()
