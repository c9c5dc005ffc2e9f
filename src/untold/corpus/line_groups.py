"""Groups lines as they arrive: a full group where lines are ready, else the few that are there."""

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

__all__ = ["ready_groups"]

T = TypeVar("T")


def ready_groups(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """Yields all items in order, in lists of at most `most` items.

    A list holds the items that are ready when the caller asks for it, and the function waits for
    one item at least. A line typed at a terminal is therefore answered at once, and a file arrives
    in full groups. An error that the items raise is raised again after all items before it.
    """
    waiting: queue.Queue[object] = queue.Queue(maxsize=most)

    def read() -> None:
        try:
            for item in items:
                waiting.put(item)
            waiting.put(_EndOfItems(None))
        except BaseException as error:
            waiting.put(_EndOfItems(error))

    threading.Thread(target=read, daemon=True).start()
    while True:
        group, end = _take(waiting, most)
        if group:
            yield group
        if end is not None:
            if end.error is not None:
                raise end.error
            return


class _EndOfItems:
    """Ends the queue, and carries the error that stopped the items, if any."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def _take(waiting: "queue.Queue[object]", most: int) -> tuple[list, _EndOfItems | None]:
    group: list = []
    item = waiting.get()
    while not isinstance(item, _EndOfItems):
        group.append(item)
        if len(group) == most:
            return group, None
        try:
            item = waiting.get_nowait()
        except queue.Empty:
            return group, None
    return group, item
