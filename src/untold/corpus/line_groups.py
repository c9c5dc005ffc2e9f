"""Lines in groups of what has arrived: large enough for batches, waiting for no more than one."""

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

__all__ = ["ready_groups"]

T = TypeVar("T")


def ready_groups(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """All items in order, in lists of up to `most` that hold what was there when asked for.

    So one line typed at a terminal is answered at once, and a file arrives in full groups. An error
    of the items is raised after all that came before it.
    """
    waiting: queue.Queue[object] = queue.Queue(maxsize=most)

    def read() -> None:
        try:
            for item in items:
                waiting.put(item)
            waiting.put(_End(None))
        except BaseException as error:
            waiting.put(_End(error))

    threading.Thread(target=read, daemon=True).start()
    while True:
        group, end = _take(waiting, most)
        if group:
            yield group
        if end is not None:
            if end.error is not None:
                raise end.error
            return


class _End:
    """The last thing in the queue, with what stopped the items."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def _take(waiting: "queue.Queue[object]", most: int) -> tuple[list, _End | None]:
    group: list = []
    item = waiting.get()
    while not isinstance(item, _End):
        group.append(item)
        if len(group) == most:
            return group, None
        try:
            item = waiting.get_nowait()
        except queue.Empty:
            return group, None
    return group, item
