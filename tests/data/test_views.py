from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.image_operations import FILL
from shiftcal.data.randomness import derived_seeds, seeded_generator
from shiftcal.data.views import ViewMaker

SHAPES = [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 13, 17)]

shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)
kinds = pytest.mark.parametrize("kind", ["weak", "strong"])


def make_images(shape: tuple[int, ...], num_images: int = 24) -> Tensor:
    return torch.rand((num_images, *shape), generator=torch.Generator().manual_seed(7))


def view(kind: str, maker: ViewMaker, images: Tensor) -> Tensor:
    return maker.weak(images) if kind == "weak" else maker.strong(images)


@kinds
@shapes
def test_views_keep_shape_dtype_and_range(kind: str, shape: tuple[int, ...]) -> None:
    images = make_images(shape)
    before = images.clone()
    made = view(kind, ViewMaker(seed=0, step=0), images)
    assert made.shape == images.shape
    assert made.dtype == torch.float32
    assert made.min() >= 0
    assert made.max() <= 1
    assert torch.equal(images, before)
    assert not torch.equal(made, images)


@kinds
@shapes
def test_the_same_seed_and_step_give_the_same_views(kind: str, shape: tuple[int, ...]) -> None:
    images = make_images(shape)
    first, again = (view(kind, ViewMaker(seed=3, step=5), images) for _ in range(2))
    assert torch.equal(first, again)


@kinds
def test_other_seeds_steps_and_calls_give_other_views(kind: str) -> None:
    images = make_images((3, 32, 32))
    maker = ViewMaker(seed=3, step=5)
    made = [view(kind, maker, images), view(kind, maker, images)]
    made += [view(kind, ViewMaker(seed=seed, step=step), images) for seed, step in [(4, 5), (3, 6), (5, 3)]]
    for index, one in enumerate(made):
        assert not any(torch.equal(one, other) for other in made[:index])


@pytest.mark.parametrize("world_size", [2, 3])
@shapes
def test_processes_see_what_one_process_sees(world_size: int, shape: tuple[int, ...]) -> None:
    images = make_images(shape)
    alone = ViewMaker(seed=1, step=2)
    makers = [ViewMaker(seed=1, step=2, rank=rank, world_size=world_size) for rank in range(world_size)]
    for kind in ("weak", "strong", "strong", "weak"):
        shards = zip(makers, images.chunk(world_size), strict=True)
        together = torch.cat([view(kind, maker, shard) for maker, shard in shards])
        assert torch.equal(together, view(kind, alone, images))


@kinds
def test_images_of_a_batch_get_views_of_their_own(kind: str) -> None:
    images = make_images((3, 32, 32), 1).expand(32, -1, -1, -1)
    made = view(kind, ViewMaker(seed=0, step=0), images)
    assert len({one.numpy().tobytes() for one in made}) > 20


@kinds
def test_the_global_random_state_is_neither_used_nor_changed(kind: str) -> None:
    images = make_images((3, 8, 8))
    torch_state = torch.get_rng_state()
    numpy_state = np.random.get_state(legacy=False)["state"]["key"].copy()
    first = view(kind, ViewMaker(seed=0, step=0), images)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state(legacy=False)["state"]["key"], numpy_state)
    torch.rand(1)
    assert torch.equal(view(kind, ViewMaker(seed=0, step=0), images), first)


def test_weak_views_are_flips_and_shifts_of_up_to_an_eighth() -> None:
    image = make_images((1, 16, 16), 1)
    made = ViewMaker(seed=0, step=0).weak(image.expand(200, -1, -1, -1))
    padded = torch.nn.functional.pad(image, (2, 2, 2, 2), mode="reflect")[0]
    crops = [padded[:, row : row + 16, column : column + 16] for row in range(5) for column in range(5)]
    possible = torch.stack(crops + [crop.flip(2) for crop in crops])
    matches = (made.unsqueeze(1) == possible).flatten(2).all(2)
    assert matches.any(1).all()
    assert matches.any(0).sum() > 40
    assert 60 < matches[:, 25:].sum() < 140


def test_without_horizontal_flip_no_view_is_mirrored() -> None:
    ramp = torch.linspace(0, 1, 28).expand(64, 1, 28, 28)
    mirrored = ViewMaker(seed=0, step=0).weak(ramp)
    upright = ViewMaker(seed=0, step=0, horizontal_flip=False).weak(ramp)
    assert (mirrored[..., 5] > mirrored[..., -6]).any()
    assert (upright[..., 5] < upright[..., -6]).all()


def test_strong_views_have_a_grey_square_of_half_the_side_or_its_visible_part() -> None:
    grey = (ViewMaker(seed=0, step=0).strong(make_images((3, 32, 32), 200)) == FILL).all(1)
    largest_square = torch.nn.functional.avg_pool2d(grey.float().unsqueeze(1), 8, stride=1).amax((1, 2, 3))
    # At least a quarter of the 16 x 16 pixels is inside, whatever its place.
    assert (largest_square == 1).all()
    assert grey.flatten(1).sum(1).median() <= 16 * 16


def test_about_a_quarter_of_strong_views_is_a_weak_view_with_a_square() -> None:
    white_noise = make_images((3, 32, 32), 1)
    made = ViewMaker(seed=0, step=0).strong(white_noise.expand(400, -1, -1, -1))
    known = torch.isin(made, white_noise) | (made == FILL)
    few_are_grey = (made == FILL).all(1).flatten(1).sum(1) <= 16 * 16
    untouched = (known.flatten(1).all(1) & few_are_grey).float().mean()
    assert 0.2 < untouched < 0.45


def test_no_images() -> None:
    images = torch.zeros(0, 3, 32, 32)
    assert ViewMaker(seed=0, step=0).weak(images).shape == images.shape
    assert ViewMaker(seed=0, step=0).strong(images).shape == images.shape


def test_weak_views_of_features_are_the_features() -> None:
    features = torch.randn(4, 7, generator=torch.Generator().manual_seed(0))
    assert torch.equal(ViewMaker(seed=0, step=0).weak(features), features)


def test_strong_views_of_features_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"strong views need images .* features of shape \(4, 7\)"):
        ViewMaker(seed=0, step=0).strong(torch.zeros(4, 7))


def test_strong_views_of_features_miss_half_of_the_values() -> None:
    features = 5 + torch.rand(400, 6, generator=torch.Generator().manual_seed(0))
    means = torch.arange(6.0).reshape(1, 6) - 10
    made = ViewMaker(seed=0, step=0).strong(features, missing=means)
    missing = made != features
    assert torch.equal(made[missing], means.expand_as(made)[missing])
    assert 0.4 < missing.float().mean(dim=0).min() <= missing.float().mean(dim=0).max() < 0.6
    maker = ViewMaker(seed=0, step=0)
    assert torch.equal(maker.strong(features, missing=means), made)
    assert not torch.equal(maker.strong(features, missing=means), made)


def test_processes_miss_the_same_features_as_one_process() -> None:
    features, means = torch.rand(12, 5), torch.full((1, 5), -1.0)
    parts = [
        ViewMaker(seed=1, step=2, rank=rank, world_size=3).strong(shard, missing=means)
        for rank, shard in enumerate(features.chunk(3))
    ]
    assert torch.equal(torch.cat(parts), ViewMaker(seed=1, step=2).strong(features, missing=means))


@kinds
@pytest.mark.parametrize("images", [torch.zeros(3, 8, 8), torch.zeros(2, 3, 8, 8, dtype=torch.uint8)])
def test_what_is_no_float_image_is_refused(kind: str, images: Tensor) -> None:
    with pytest.raises(InvalidInputError, match="expected float32 images"):
        view(kind, ViewMaker(seed=0, step=0), images)


def test_strong_views_need_one_or_three_channels() -> None:
    with pytest.raises(InvalidInputError, match="1 or 3 channels, got 4"):
        ViewMaker(seed=0, step=0).strong(torch.zeros(2, 4, 8, 8))


@pytest.mark.parametrize(("rank", "world_size"), [(-1, 2), (2, 2), (0, 0)])
def test_impossible_ranks_are_refused(rank: int, world_size: int) -> None:
    with pytest.raises(InvalidInputError, match="rank"):
        ViewMaker(seed=0, step=0, rank=rank, world_size=world_size)


def test_seeded_generators_differ_by_value_order_and_length() -> None:
    parts = [(0,), (1,), (1, 0), (0, 1), (1, 0, 0), (2**32,), (2**32, 5), (0, 1 + 5 * 2**32), (2**64 - 1,)]
    streams = [tuple(torch.rand(4, generator=seeded_generator(*part)).tolist()) for part in parts]
    assert len(set(streams)) == len(parts)
    assert streams[0] == tuple(torch.rand(4, generator=seeded_generator(0)).tolist())


@pytest.mark.parametrize("parts", [(), (-1,), (1, 2**64)])
def test_impossible_seeds_are_refused(parts: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match="parts of a seed"):
        seeded_generator(*parts)


def test_views_of_some_rows_are_those_that_all_would_have() -> None:
    images, only = make_images((3, 16, 16), 12), torch.arange(12) % 3 == 1
    for kind in ("weak", "strong"):
        every, some = (getattr(ViewMaker(seed=0, step=5), kind)(images, **given) for given in ({}, {"only": only}))
        assert torch.equal(some, every[only])


def test_seeds_of_many_steps_differ_and_are_decided_by_their_parts() -> None:
    seeds = derived_seeds(1000, 0, 3, 1)
    assert len(set(seeds)) == 1000
    assert seeds == derived_seeds(1000, 0, 3, 1)
    assert not set(seeds) & set(derived_seeds(1000, 0, 4, 1))
