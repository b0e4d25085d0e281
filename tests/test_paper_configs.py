"""The configurations of the paper's experiments: all are valid, and those of VisDA run on a few random pictures."""

import importlib.util
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from shiftcal.core.errors import DataUnavailableError
from shiftcal.faces.cli import main
from shiftcal.methods.fixmatch import FixMatch
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone
from shiftcal.runs.config import RunConfig, read_config
from shiftcal.runs.run_data import load_data

CONFIGS = Path(__file__).parents[1] / "configs"
FILES = sorted(path for path in CONFIGS.rglob("*.yaml") if path.parent.name != "cluster")
VISDA = CONFIGS / "visda-2017"
STARTS = ("source-only", "asg")
SELF_TRAINING = sorted(path.stem for path in VISDA.glob("*.yaml") if path.stem not in STARTS)

# As torchvision counts them, without the layer of ImageNet's classes.
RESNET101_WEIGHTS = 44_549_160 - 2048 * 1000 - 1000

needs_timm = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")


def relative(path: Path) -> str:
    return path.relative_to(CONFIGS).as_posix()


def visda(name: str) -> RunConfig:
    return read_config(VISDA / f"{name}.yaml")


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_every_file_is_a_recipe_for_data_of_the_catalog(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHIFTCAL_DATA", str(tmp_path))
    config = read_config(path)
    assert config.recipe().method_name == config.method
    with pytest.raises(DataUnavailableError, match=config.source):
        load_data(config, download=False)


@pytest.mark.parametrize("name", SELF_TRAINING)
def test_self_training_starts_from_a_run_that_has_a_file(name: str) -> None:
    start = Path(visda(name).training["initial_run"])
    assert start.parent == Path("runs")
    assert start.name in STARTS
    assert visda(name).backbone == visda(start.name).backbone


def test_rivals_differ_in_the_method_alone() -> None:
    drst, from_asg = visda("drst"), visda("drst-asg")
    assert from_asg == replace(drst, training={**drst.training, "initial_run": "runs/asg"})
    for name in ("cbst", "crst"):
        rival = visda(name)
        own = {"method": rival.method, "method_options": rival.method_options}
        assert rival == replace(drst, **own)  # type: ignore[arg-type]
        shared = drst.method_options.keys() & rival.method_options.keys()
        assert {key: drst.method_options[key] for key in shared} == {key: rival.method_options[key] for key in shared}


@pytest.mark.parametrize("path", sorted((CONFIGS / "ssl").glob("*.yaml")), ids=relative)
def test_semi_supervised_files_serve_fixmatch_too(path: Path) -> None:
    """Its defaults are the published settings."""
    assert replace(read_config(path), method="fixmatch").recipe().method == FixMatch()


def write_pictures(folder: Path, num_of_each: int, *, seed: int) -> None:
    """Three classes in VisDA's layout, told apart by their brightness."""
    generator = np.random.default_rng(seed)
    lines = []
    for number, name in ((0, "aeroplane"), (4, "horse"), (11, "truck")):
        (folder / name).mkdir(parents=True)
        for index in range(num_of_each):
            pixels = generator.integers(15 * number, 15 * number + 80, (32, 32, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{index}.png")
            lines.append(f"{name}/{index}.png {number}\n")
    (folder / "image_list.txt").write_text("".join(lines))


def run_small(name: str) -> None:
    """The file as it is, but for weights that would have to be fetched and for all that is large in it."""
    text = (VISDA / f"{name}.yaml").read_text()
    for large, small in (("resnet101:pretrained", "small-cnn"), ("image_size: 224", "image_size: 32")):
        assert text.count(large) == 1
        text = text.replace(large, small)
    small_file = Path(f"{name}.yaml")
    small_file.write_text(text)
    sizes = ("epochs=1", "epoch_steps=2", "batch_size=4", "num_workers=0")
    assert main(["run", str(small_file), *(word for size in sizes for word in ("--set", size))]) == 0


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory, quick_estimate: None) -> Iterator[None]:
    """A working directory with pictures, and with the runs that self-training starts from."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        folder = tmp_path_factory.mktemp("visda")
        write_pictures(folder / "data/visda-2017/train", 10, seed=0)
        write_pictures(folder / "data/visda-2017/validation", 5, seed=1)
        monkeypatch.setenv("SHIFTCAL_DATA", str(folder / "data"))
        monkeypatch.chdir(folder)
        # Drawing takes longer than these trainings do, and has tests of its own.
        monkeypatch.setattr("shiftcal.runs.experiment.report_run", lambda _: None)
        for name in STARTS:
            run_small(name)
        yield


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize("name", [name for name in SELF_TRAINING if name != "drst"])
def test_self_training_on_a_few_pictures(name: str) -> None:
    """But for its start, `drst` is what `drst-asg` is."""
    run_small(name)
    check_run(name)


@needs_timm
def test_the_network_of_the_paper_is_there() -> None:
    with torch.device("meta"):
        statistics = InputStatistics(torch.zeros(3), torch.ones(3))
        backbone = build_backbone(visda("drst").backbone.replace(":pretrained", ""), (3, 224, 224), statistics)
    assert sum(weight.numel() for weight in backbone.parameters()) == RESNET101_WEIGHTS + 2048 * 512 + 512


def check_run(name: str) -> None:
    """An epoch was trained with pseudo-labels, and the target was predicted."""
    folder = Path("runs") / name
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert [record["epoch"] for record in history] == [1]
    assert all(record["pseudo_labels"] > 0 for record in history)
    metrics = json.loads((folder / "metrics.json").read_text())
    assert 0 <= metrics["target"]["accuracy"] <= 1
