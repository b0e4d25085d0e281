from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.image_decoding import decode_picture
from shiftcal.data.image_formats import convert_images
from shiftcal.data.inputs import (
    ArrayInputs,
    DatasetInputs,
    EncodedInputs,
    FileInputs,
    ImageFormat,
    Inputs,
)

ROWS = np.array([1, 0])


def random_pixels(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def encoded(pictures: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], image_format: ImageFormat) -> EncodedInputs:
    files = []
    for picture in pictures:
        buffer = io.BytesIO()
        Image.fromarray(picture).save(buffer, "PNG")
        files.append(buffer.getvalue())
    offsets = np.cumsum([0, *map(len, files)])
    names = [f"cat/{row}.png" for row in range(len(files))]
    return EncodedInputs(np.frombuffer(b"".join(files), np.uint8), offsets, image_format, names=names)


def test_features_are_fetched_by_row() -> None:
    inputs = ArrayInputs(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert (inputs.kind, inputs.shape, inputs.in_memory, len(inputs)) == ("features", (2,), True, 2)
    assert inputs.fetch(ROWS).tolist() == [[3.0, 4.0], [1.0, 2.0]]


def test_pixels_become_floats_up_to_one() -> None:
    inputs = ArrayInputs(torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1))
    assert inputs.kind == "images"
    assert inputs.fetch(ROWS).flatten().tolist() == [1.0, 0.0]


def test_other_numbers_of_dimensions_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"got \(2, 3, 4\)"):
        ArrayInputs(torch.zeros(2, 3, 4))


def test_subset_of_a_subset_keeps_names() -> None:
    inputs = ArrayInputs(torch.arange(4.0).view(4, 1)).subset(np.array([3, 2, 0])).subset(np.array([0, 2]))
    assert inputs.in_memory
    assert inputs.fetch(ROWS).flatten().tolist() == [0.0, 3.0]
    assert [inputs.identify(row) for row in range(2)] == ["3", "0"]


def test_dataset_gives_inputs_without_labels() -> None:
    inputs = DatasetInputs(TensorDataset(torch.full((2, 1, 4, 4), 255, dtype=torch.uint8), torch.arange(2)))
    assert inputs.fetch(ROWS).shape == (2, 1, 4, 4)
    assert inputs.fetch(ROWS).max() == 1
    with pytest.raises(InvalidInputError, match="resize them where they are made"):
        inputs.in_format(ImageFormat(8, 1))


def test_datasets_that_can_not_be_used_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="empty"):
        DatasetInputs(TensorDataset(torch.zeros(0, 2)))
    with pytest.raises(InvalidInputError, match="got int"):
        DatasetInputs([(1, 2)])  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"got \(2, 3\)"):
        DatasetInputs(TensorDataset(torch.zeros(1, 2, 3)))


def test_file_is_scaled_by_its_shorter_side_and_cropped(tmp_path: Path) -> None:
    picture = np.zeros((10, 30, 3), dtype=np.uint8)
    picture[:, 10:20, 0] = 255
    Image.fromarray(picture).save(tmp_path / "wide.png")
    red, green, _ = decode_picture(tmp_path / "wide.png", ImageFormat(10, 3), name="wide.png")
    assert red.min() == 1
    assert green.max() == 0


def test_broken_file_is_named(tmp_path: Path) -> None:
    Image.fromarray(random_pixels(64, 64, 3)).save(tmp_path / "whole.png")
    (tmp_path / "half.png").write_bytes((tmp_path / "whole.png").read_bytes()[:2000])
    with pytest.raises(InvalidInputError, match=r"can't decode the image 'half\.png'"):
        decode_picture(tmp_path / "half.png", ImageFormat(8, 3), name="half.png")


def test_files_are_named_below_their_root(tmp_path: Path) -> None:
    paths = [tmp_path / "root" / "cat" / "1.png", tmp_path / "2.png"]
    inputs = FileInputs(paths, ImageFormat(8, 3), root=tmp_path / "root")
    assert inputs.identify(0) == "cat/1.png"
    assert inputs.identify(1) == paths[1].as_posix()


def test_encoded_pictures_equal_their_files(tmp_path: Path) -> None:
    pictures = random_pixels(2, 12, 9, 3)
    for row, picture in enumerate(pictures):
        Image.fromarray(picture).save(tmp_path / f"{row}.png")
    image_format = ImageFormat(8, 3)
    files = FileInputs([tmp_path / f"{row}.png" for row in range(2)], image_format, root=tmp_path)
    packed = encoded(pictures, image_format)
    assert torch.equal(packed.fetch(ROWS), files.fetch(ROWS))
    assert (len(packed), packed.in_memory, packed.identify(1)) == (2, False, "cat/1.png")


def test_broken_encoded_picture_is_named() -> None:
    inputs = EncodedInputs(np.zeros(4, np.uint8), np.array([0, 4]), ImageFormat(8, 3), names=["a.jpg"])
    with pytest.raises(InvalidInputError, match=r"can't decode the image 'a\.jpg'"):
        inputs.fetch(np.array([0]))


def test_format_that_is_there_already_copies_nothing() -> None:
    inputs = ArrayInputs(torch.zeros(2, 3, 8, 8))
    assert inputs.in_format(ImageFormat(8, 3)) is inputs


def test_features_have_no_image_format() -> None:
    with pytest.raises(InvalidInputError, match=r"expected images, got features of shape \(5,\)"):
        ArrayInputs(torch.zeros(2, 5)).in_format(ImageFormat(8, 3))


@pytest.mark.parametrize("channels", [1, 3])
def test_every_storage_takes_another_format(channels: int, tmp_path: Path) -> None:
    pictures = random_pixels(2, 12, 12, 3)
    Image.fromarray(pictures[0]).save(tmp_path / "0.png")
    storages: list[Inputs] = [
        ArrayInputs(torch.from_numpy(pictures).permute(0, 3, 1, 2)),
        FileInputs([tmp_path / "0.png"], ImageFormat(12, 3), root=tmp_path),
        encoded(pictures, ImageFormat(12, 3)),
        ArrayInputs(torch.from_numpy(pictures).permute(0, 3, 1, 2)).subset(np.array([0])),
    ]
    fetched = [inputs.in_format(ImageFormat(6, channels)).fetch(np.array([0])) for inputs in storages]
    for values in fetched:
        assert values.shape == (1, channels, 6, 6)
        # Pillow rounds to whole pixel values at each step, torch once.
        torch.testing.assert_close(values, fetched[0], atol=2 / 255, rtol=0)


def test_converted_images_equal_pillow() -> None:
    pictures = random_pixels(3, 16, 16)
    converted = convert_images(torch.from_numpy(pictures)[:, None], ImageFormat(7, 1))
    expected = [np.asarray(Image.fromarray(p).resize((7, 7), Image.Resampling.BILINEAR), np.int16) for p in pictures]
    assert converted.dtype == torch.uint8
    assert np.abs(converted[:, 0].numpy().astype(np.int16) - np.stack(expected)).max() <= 1


def test_grey_becomes_rgb_without_a_copy() -> None:
    values = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    converted = convert_images(values, ImageFormat(8, 3))
    assert converted.shape == (2, 3, 8, 8)
    assert converted.data_ptr() == values.data_ptr()


def test_float_images_stay_floats_and_wide_ones_keep_their_centre() -> None:
    values = torch.zeros(1, 1, 4, 12)
    values[..., 4:8] = 0.5
    converted = convert_images(values, ImageFormat(4, 1))
    assert converted.dtype == torch.float32
    assert (converted == 0.5).all()
