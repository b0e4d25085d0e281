"""Weak and strong random views of images, as in FixMatch (Sohn et al., 2020, section 2.3 and appendix).

A weak view is a random mirror image and a shift by up to an eighth of the side. A strong view is a weak one, then
two random operations of `image_operations.OPERATIONS`, each with a magnitude of its own, and a grey square of half
the side (Cutout). As in the PyTorch code in common use, a drawn operation is carried out with probability one half.

Features have no such operations, so what follows is ours: a weak view is the features themselves, and in a strong one
half of the values, chosen at random, are missing.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.image_operations import OPERATIONS, cut_out, flip_and_shift, transform
from shiftcal.data.randomness import seeded_generator

FLIP_PROBABILITY = 0.5
LARGEST_SHIFT = 0.125
NUM_OPERATIONS = 2
OPERATION_PROBABILITY = 0.5
CUT_OUT_SIDE = 0.5
MISSING_SHARE = 0.5

_NAMES = tuple(OPERATIONS)


class ViewMaker:
    """Makes the random views of one training step, the same for any number of processes or workers.

    What is random is drawn for the whole batch of all processes, from the seed, the step and the number of views
    made before in the step; each process takes the rows of its rank. So all processes must have equally many
    images and ask for the same views in the same order. The global random state is neither used nor changed.

    Set `horizontal_flip=False` where a mirror image means something else or nothing, as for digits and text.
    """

    def __init__(
        self, seed: int, step: int, rank: int = 0, world_size: int = 1, horizontal_flip: bool = True
    ) -> None:
        if not 0 <= rank < world_size:
            raise InvalidInputError(f"expected 0 <= rank < world_size, got rank {rank!r} of {world_size!r}")
        self.seed = seed
        self.step = step
        self.rank = rank
        self.world_size = world_size
        self.horizontal_flip = horizontal_flip
        self._num_made = 0

    def weak(self, images: Tensor, *, only: Tensor | None = None) -> Tensor:
        """Images (N, C, H, W) mirrored and shifted at random; features (N, D) as they are.

        Args:
            images: or features.
            only: (N,) of bool, which of the images to give; what is random in these is as if all were given.

        Raises:
            InvalidInputError: for anything else, or images that are not float32.
        """
        rows = _row_numbers(only)
        if images.ndim == 2:
            return _taken(images, rows)
        _check_images(images)
        return self._weak(images, self._next_generator(), rows)

    def strong(self, images: Tensor, *, missing: Tensor | None = None, only: Tensor | None = None) -> Tensor:
        """Images (N, C, H, W) in [0, 1], C = 1 or 3, strongly changed at random, in [0, 1] again.

        Args:
            images: or features (N, D), of which half are replaced at random.
            missing: what stands for a missing value of each feature, such as its mean; not used for images.
            only: (N,) of bool, which of the images to give, see `weak`.

        Raises:
            InvalidInputError: for features without `missing`, for other numbers of channels, or images that are not
                float32.
        """
        rows = _row_numbers(only)
        if images.ndim == 2:
            if missing is None:
                raise InvalidInputError(
                    f"strong views need images (N, C, H, W), got features of shape {tuple(images.shape)}; "
                    "pass the means of the features as `missing`"
                )
            shape = (self._num_global(images), images.shape[1])
            replaced = torch.rand(shape, generator=self._next_generator()) < MISSING_SHARE
            own_replaced = self._own_rows(replaced, len(images), rows).to(images.device)
            return torch.where(own_replaced, missing, _taken(images, rows))
        _check_images(images)
        if images.shape[1] not in (1, 3):
            raise InvalidInputError(f"strong views need images of 1 or 3 channels, got {images.shape[1]}")
        generator = self._next_generator()
        views = self._weak(images, generator, rows)
        drawn = _draw_strong(self._num_global(images), images, generator)
        own = _StrongDraw._make(self._own_rows(values, len(images), rows) for values in drawn)
        for slot in range(NUM_OPERATIONS):
            views = _apply_operations(views, own.operations[:, slot], own.magnitudes[:, slot])
        size = int(min(images.shape[-2:]) * CUT_OUT_SIDE)
        return cut_out(views, own.cut_row.to(images.device), own.cut_column.to(images.device), size)

    def _weak(self, images: Tensor, generator: torch.Generator, rows: Tensor | None) -> Tensor:
        drawn = _draw_weak(self._num_global(images), images, generator)
        flip, row_shift, column_shift = (
            self._own_rows(values, len(images), rows).to(images.device) for values in drawn
        )
        return flip_and_shift(_taken(images, rows), flip & self.horizontal_flip, row_shift, column_shift)

    def _next_generator(self) -> torch.Generator:
        self._num_made += 1
        return seeded_generator(self.seed, self.step, self._num_made)

    def _num_global(self, images: Tensor) -> int:
        return len(images) * self.world_size

    def _own_rows(self, values: Tensor, num_images: int, rows: Tensor | None) -> Tensor:
        """Of what was drawn for all processes, that of this one's images, or of some of them, by their numbers."""
        return _taken(values[self.rank * num_images : (self.rank + 1) * num_images], rows)


class _WeakDraw(NamedTuple):
    """The random part of weak views, a row for each image."""

    flip: Tensor
    row_shift: Tensor
    column_shift: Tensor


class _StrongDraw(NamedTuple):
    """The random part of strong views beyond that of weak ones, a row for each image."""

    operations: Tensor
    magnitudes: Tensor
    cut_row: Tensor
    cut_column: Tensor


def _row_numbers(only: Tensor | None) -> Tensor | None:
    """(K,) on the CPU, of a mask (N,), which would be looked through anew for everything that is taken by it."""
    return None if only is None else only.cpu().nonzero().flatten()


def _taken(values: Tensor, rows: Tensor | None) -> Tensor:
    return values if rows is None else values.index_select(0, rows.to(values.device))


def _draw_weak(num_images: int, images: Tensor, generator: torch.Generator) -> _WeakDraw:
    flip = torch.rand(num_images, generator=generator) < FLIP_PROBABILITY
    row_shift, column_shift = (
        torch.randint(-largest, largest + 1, (num_images,), generator=generator)
        for largest in (int(side * LARGEST_SHIFT) for side in images.shape[-2:])
    )
    return _WeakDraw(flip, row_shift, column_shift)


def _draw_strong(num_images: int, images: Tensor, generator: torch.Generator) -> _StrongDraw:
    shape = (num_images, NUM_OPERATIONS)
    operations = torch.randint(len(_NAMES), shape, generator=generator)
    left_out = torch.rand(shape, generator=generator) >= OPERATION_PROBABILITY
    operations[left_out] = _NAMES.index("identity")
    low, high = torch.tensor([(entry.low, entry.high) for entry in OPERATIONS.values()])[operations].unbind(-1)
    magnitudes = low + (high - low) * torch.rand(shape, generator=generator)
    cut_row, cut_column = (torch.randint(side, (num_images,), generator=generator) for side in images.shape[-2:])
    return _StrongDraw(operations, magnitudes, cut_row, cut_column)


def _apply_operations(images: Tensor, operations: Tensor, magnitudes: Tensor) -> Tensor:
    """Carry out every operation once, on all the images that drew it; `operations` (N,) are on the CPU.

    Meanwhile images are sorted by their operations, so that those of one are a slice. Counting them on the CPU spares
    a GPU from waiting for each operation's number of images. Those that move images are carried out together.
    """
    order, counts = operations.argsort(), operations.bincount(minlength=len(_NAMES)).tolist()
    magnitudes = magnitudes[order].to(images)
    order = order.to(images.device)
    changed = images.index_select(0, order)
    moved, matrices = [], []
    slices = zip(_NAMES, counts, torch.split(changed, counts), torch.split(magnitudes, counts), strict=True)
    for name, count, own, magnitude in slices:
        operation = OPERATIONS[name]
        if count == 0 or name == "identity":
            continue
        if operation.matrices is None:
            own.copy_(operation.apply(own, magnitude))
        else:
            moved.append(own)
            matrices.append(operation.matrices(magnitude, *images.shape[-2:]))
    if moved:
        shown = torch.split(transform(torch.cat(moved), torch.cat(matrices)), [len(own) for own in moved])
        for own, result in zip(moved, shown, strict=True):
            own.copy_(result)
    return torch.empty_like(changed).index_copy_(0, order, changed)


def _check_images(images: Tensor) -> None:
    if images.ndim != 4 or images.dtype != torch.float32:
        raise InvalidInputError(
            f"expected float32 images (N, C, H, W) in [0, 1], got {images.dtype} {tuple(images.shape)}"
        )
