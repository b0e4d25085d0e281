"""Batches that are loaded ahead: while a network is at work on one, the next ones are read and decoded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

Key = TypeVar("Key")
Item = TypeVar("Item")

_AHEAD = 2


def load_ahead(
    load: Callable[[Key], Item], keys: Sequence[Key], *, num_workers: int = 0, pin_memory: bool = False
) -> Iterator[Item]:
    """`load` of each key, in their order, two of them (for each worker) ahead.

    Args:
        load: a function of the key alone, so that it can't matter who calls it.
        keys: what to load.
        num_workers: processes that load; with 0 a thread does, which is enough until decoding needs more cores than
            the four threads that it has anyway.
        pin_memory: of what workers load, for a GPU; see torch's `DataLoader`.
    """
    if num_workers:
        yield from DataLoader(
            _Loaded(load, keys),
            batch_size=None,
            sampler=range(len(keys)),
            num_workers=num_workers,
            pin_memory=pin_memory,
            prefetch_factor=_AHEAD,
            # Without an own generator the loader would draw a seed from the global random state.
            generator=torch.Generator(),
        )
        return
    pool = ThreadPoolExecutor(1)
    waiting: deque[Future[Item]] = deque()
    try:
        for key in keys:
            waiting.append(pool.submit(load, key))
            if len(waiting) > _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


class _Loaded(Dataset[Any]):
    """Item k is what the k-th key gives, so that the order of worker processes can't matter."""

    def __init__(self, load: Callable[[Any], Any], keys: Sequence[Any]) -> None:
        self.load = load
        self.keys = keys

    def __getitem__(self, number: int) -> Any:
        return self.load(self.keys[number])
