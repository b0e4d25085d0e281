"""The loader against the network: pictures decoded, and pictures that networks take, in a second of one core.

Pictures of Office-31 (amazon), as they are (128 pixels, 3.5 KB) and written again at 500 pixels (about the size of
those of ImageNet and VisDA), from a folder, a tar file and a parquet file with row groups of 100, in random order as
training asks for them. CPU seconds of all threads are counted: other work on the machine does not lengthen
them, and more cores divide them. The last rows are what networks take of the same pictures.
"""

from __future__ import annotations

import argparse
import io
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
import torch
from benchmarks.frame import Benchmark, Job
from PIL import Image
from pyarrow import parquet
from torch import Tensor

from shiftcal.data.image_formats import ImageFormat
from shiftcal.data.inputs import EncodedInputs
from shiftcal.data.specs import load_domain
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone

COUNT, BATCH = 512, 32
# Side of the stored pictures, and of those that networks are given.
SIZES = ((128, 32), (128, 128), (500, 224))
NETWORKS = (("small-cnn", 32), ("efficientnet-lite0:pretrained", 128), ("efficientnet-lite0:pretrained", 224))
TRAINED = ("small-cnn",)


class Rate(NamedTuple):
    """How many pictures in a second of one core."""

    what: str
    per_cpu_second: float


def per_cpu_second(work: Callable[[], int]) -> float:
    """How many of what the work counts, in a second of one core."""
    started = time.process_time()
    count = work()
    return count / (time.process_time() - started)


def write_pictures(folder: Path, side: int) -> dict[str, str]:
    """The pictures in each way of storing them, by its name."""
    inputs = load_domain("office-31/amazon").inputs
    assert isinstance(inputs, EncodedInputs)
    contents = []
    for row in range(COUNT):
        content = inputs.encoded[inputs.offsets[row] : inputs.offsets[row + 1]].tobytes()
        if side != 128:
            stream = io.BytesIO()
            picture = Image.open(io.BytesIO(content)).convert("RGB")
            picture.resize((side, side), Image.Resampling.BICUBIC).save(stream, "JPEG", quality=90)
            content = stream.getvalue()
        contents.append(content)
    (folder / "files").mkdir()
    with tarfile.open(folder / "all.tar", "w") as archive:
        for row, content in enumerate(contents):
            path = folder / "files" / f"{row:06}.jpg"
            path.write_bytes(content)
            archive.add(path, path.name)
    parquet.write_table(pyarrow.table({"image": contents}), folder / "all.parquet", row_group_size=100)
    return {"folder": str(folder / "files"), "tar": str(folder / "all.tar"), "parquet": str(folder / "all.parquet")}


def decoding_rates(stored: int, size: int) -> Iterator[Rate]:
    """One for each way of storing."""
    order = np.random.default_rng(0).permutation(COUNT).astype(np.int64)
    with tempfile.TemporaryDirectory() as folder:
        for name, spec in write_pictures(Path(folder), stored).items():
            inputs = load_domain(spec, image_format=ImageFormat(size, 3)).inputs

            def decode(inputs: Any = inputs) -> int:
                for start in range(0, COUNT, BATCH):
                    inputs.fetch(order[start : start + BATCH])
                return COUNT

            yield Rate(f"decoded, {name}", per_cpu_second(decode))


def network_rates(name: str, size: int) -> Iterator[Rate]:
    """Of pictures that a network takes forward, and in training."""
    statistics = InputStatistics(torch.zeros(3), torch.ones(3))
    backbone = build_backbone(name, (3, size, size), statistics).eval()
    backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    pictures = torch.rand(BATCH, 3, size, size).to(memory_format=torch.channels_last)
    repeats = max(1, 2_000_000 // (BATCH * size * size))

    def forward() -> int:
        with torch.inference_mode():
            for _ in range(repeats):
                backbone(pictures)
        return repeats * BATCH

    def training() -> int:
        for _ in range(repeats):
            loss: Tensor = backbone(pictures).square().mean()
            loss.backward()  # type: ignore[no-untyped-call]
        return repeats * BATCH

    works = {"forward": forward, **({"forward and backward": training} if name in TRAINED else {})}
    for what, work in works.items():
        yield Rate(f"{name}, {what}", per_cpu_second(work))


def measured(rates: Iterator[Rate]) -> Iterator[dict[str, str | float]]:
    """As rows; nothing is measured before they are asked for."""
    for rate in rates:
        yield rate._asdict()


def jobs(_: argparse.Namespace) -> Iterator[Job]:
    """Pictures of each size, then each network."""
    torch.set_num_threads(1)
    for stored, size in SIZES:
        key = {"stored": stored, "size": size, "network": ""}
        yield Job(key, partial(measured, decoding_rates(stored, size)))
    for name, size in NETWORKS:
        key = {"stored": "", "size": size, "network": name}
        yield Job(key, partial(measured, network_rates(name, size)))


BENCHMARKS = {"loader": Benchmark(jobs)}
