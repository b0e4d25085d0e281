import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shiftcal.core.errors import DataUnavailableError, InvalidInputError, UnknownNameError
from shiftcal.data.catalog.generated import GAUSSIANS
from shiftcal.data.catalog.human_votes import read_votes
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.specs import load_domain
from shiftcal.runs.reproduction import REPRODUCTIONS, find_reproduction, reproduce
from shiftcal.runs.reproduction.base import Reproduction, Scale
from shiftcal.runs.tasks import parse_tasks


@pytest.mark.parametrize("name", REPRODUCTIONS)
@pytest.mark.parametrize("scale", ["cpu", "paper"])
def test_every_plan_names_methods_and_options_that_there_are(name: str, scale: Scale) -> None:
    plan = find_reproduction(name).plan(scale)
    for contender in plan.contenders:
        plan.config(plan.tasks[0], contender, 0).recipe()


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A task of a few rows for the real ones, with made-up votes, and one of pictures on white; reports are bare."""
    monkeypatch.setattr("shiftcal.runs.reporting.figure_sections.as_data_uri", lambda draw, info: "data:,")
    random = np.random.default_rng(0)
    labels = np.arange(450) % 3
    points = np.eye(3)[labels] + 0.5 * random.normal(size=(450, 3))
    np.savez(tmp_path / "a.npz", x=points, y=labels)
    np.savez(tmp_path / "b.npz", x=points[:150] + 0.3, y=labels[:150])
    pictures = np.full((60, 16, 16, 3), 255, dtype=np.uint8)
    pictures[:, 4:12, 4:12] = random.integers(0, 200, (60, 8, 8, 3))
    np.savez(tmp_path / "pictures.npz", x=pictures, y=labels[:60])
    np.savez(tmp_path / "darker.npz", x=np.where(pictures == 255, pictures, pictures // 3), y=labels[:60])
    np.savez(tmp_path / "cifar10h.npz", counts=random.integers(1, 9, (150, 10)))
    monkeypatch.setenv("SHIFTCAL_DATA", str(tmp_path))
    return f"{tmp_path / 'a.npz'}->{tmp_path / 'b.npz'}"


pytestmark = pytest.mark.usefixtures("coarse_estimate")
SHORT = ("epochs=2", "epoch_steps=3", "batch_size=16", "validation_fraction=0.4")


def short_plan(name: str, task: str, monkeypatch: pytest.MonkeyPatch) -> Reproduction:
    """A reproduction with its own first and last method and a few steps."""
    found = find_reproduction(name)
    plan = found.plan("cpu")
    of_any_data = [contender for contender in plan.contenders if not contender.of_network]
    contenders = (of_any_data[0], of_any_data[-1])
    if found.shows_pictures:
        task = "->".join(2 * [str(Path(task.split("->")[0]).with_name("pictures.npz"))])
    short = replace(
        plan,
        tasks=plan.tasks if name == "gaussian" else tuple(parse_tasks(task)),
        contenders=contenders,
        num_seeds=1,
        settings=SHORT,
        image_size=None,
        backbone="auto",
    )
    monkeypatch.setattr(type(found), "plan", lambda *_: short)
    return found


@pytest.fixture
def quick_for(
    name: str, monkeypatch: pytest.MonkeyPatch, estimate_quickly: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """A quick estimate for the reproduction of that name, but where it needs a ratio."""
    if name != "ratio-vs-human":
        estimate_quickly(monkeypatch)


@pytest.mark.parametrize("name", sorted(set(REPRODUCTIONS) - {"calibration-digits", "ssl"}))
@pytest.mark.usefixtures("quick_for")
def test_first_steps_of_each_on_a_stand_in(
    name: str, stand_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trains, analyses, draws and writes. Those left out differ from their parents in the plan alone."""
    page = reproduce(short_plan(name, stand_in, monkeypatch), "cpu", tmp_path / "out")
    record = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert record["configuration"]
    assert len(page.with_suffix(".csv").read_text(encoding="utf-8").splitlines()) > 1
    assert page.with_suffix(".svg").is_file()
    assert (tmp_path / f"out/{name}-pictures.svg").is_file() == find_reproduction(name).shows_pictures
    assert "nan" not in page.read_text(encoding="utf-8")


# Those whose plan at the paper's scale is another than that of two cores.
AT_SCALE = [name for name, found in REPRODUCTIONS.items() if found.plan("paper") != found.plan("cpu")]
TINY = ("epochs=1", "epoch_steps=2", "batch_size=8", "num_workers=0", "validation_fraction=0.4")


@pytest.mark.parametrize("name", AT_SCALE)
@pytest.mark.usefixtures("quick_for")
def test_first_steps_at_the_scale_of_the_paper(
    name: str, stand_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan as it is, but for data, for weights that would have to be fetched and for all that is large in it."""
    found = find_reproduction(name)
    plan = found.plan("paper")
    pictures, darker = (Path(stand_in.split("->")[0]).with_name(f"{name}.npz") for name in ("pictures", "darker"))
    few_labels = ("label_budget=30",) if any("label_budget" in setting for setting in plan.settings) else ()
    tiny = replace(
        plan,
        tasks=tuple(parse_tasks(f"{pictures}->{darker}")),
        contenders=(plan.contenders[0], plan.contenders[-1]),
        num_seeds=1,
        backbone="small-cnn",
        image_size=16,
        settings=(*plan.settings, *TINY, *few_labels),
    )
    monkeypatch.setattr(type(found), "plan", lambda *_: tiny)
    page = reproduce(found, "paper", tmp_path / "out")
    assert f"shiftcal reproduce {name} --scale paper --seeds 1" in page.read_text(encoding="utf-8")
    assert len(page.with_suffix(".csv").read_text(encoding="utf-8").splitlines()) > 1


@pytest.mark.usefixtures("quick_estimate")
def test_a_second_time_the_rows_are_the_same(stand_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = short_plan("calibration", stand_in, monkeypatch)
    first, second = (reproduce(found, "cpu", tmp_path / name).with_suffix(".csv") for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.usefixtures("quick_estimate")
def test_a_row_names_the_commit_that_trained_its_model(
    stand_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = short_plan("calibration", stand_in, monkeypatch)
    reproduce(found, "cpu", tmp_path)
    for card in tmp_path.glob("runs/cells/*/source-only/*/card.json"):
        card.write_text(json.dumps({**json.loads(card.read_text()), "commit": "earlier"}))
    with reproduce(found, "cpu", tmp_path).with_suffix(".csv").open() as file:
        made_by = {row["method"]: row["commit"] for row in csv.DictReader(file)}
    assert made_by.pop("source-only") == "earlier"
    assert made_by
    assert "earlier" not in made_by.values()


@pytest.mark.usefixtures("quick_estimate")
def test_seeds_are_added_to_a_record(stand_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = short_plan("calibration", stand_in, monkeypatch)
    with pytest.raises(InvalidInputError, match="no record of calibration to add seeds 1 to 2 to"):
        reproduce(found, "cpu", tmp_path / "parts", num_seeds=2, first_seed=1)
    whole = reproduce(found, "cpu", tmp_path / "whole", num_seeds=2)
    reproduce(found, "cpu", tmp_path / "parts", num_seeds=1)
    joined = reproduce(found, "cpu", tmp_path / "parts", num_seeds=1, first_seed=1)
    rows, expected = (sorted(page.with_suffix(".csv").read_text().splitlines()) for page in (joined, whole))
    assert rows == expected
    assert joined.read_text() == whole.read_text()

    plan = found.plan("cpu")
    monkeypatch.setattr(type(found), "plan", lambda *_: replace(plan, settings=(*SHORT, "learning_rate=0.1")))
    with pytest.raises(InvalidInputError, match="of another plan"):
        reproduce(found, "cpu", tmp_path / "parts", num_seeds=1, first_seed=2)


def test_an_unknown_name_lists_those_that_there_are() -> None:
    with pytest.raises(UnknownNameError, match="training-curves"):
        find_reproduction("training-curve")


def test_votes_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataUnavailableError, match=r"cifar10h-counts\.npy"):
        read_votes(tmp_path)
    np.save(tmp_path / "cifar10h-counts.npy", np.ones((3, 10)))
    assert read_votes(tmp_path).shape == (3, 10)


def test_generated_points_have_the_densities_that_are_said_of_them() -> None:
    for name, gaussian in GAUSSIANS.items():
        domain: Any = load_domain(f"gaussian/{name}")
        points = domain.inputs.fetch(np.arange(len(domain)))
        np.testing.assert_allclose(points.mean(dim=0), gaussian.mean, atol=0.1)
        np.testing.assert_allclose(points.var(dim=0), gaussian.variance, atol=0.1)


@pytest.mark.parametrize("kind", ["low-contrast", "blurred", "noisy"])
def test_changed_pictures_keep_their_labels(kind: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    pictures, labels = random.integers(0, 256, (6, 8, 8, 3), dtype=np.uint8), np.arange(6)
    np.savez(tmp_path / "cifar10.npz", train_x=pictures, train_y=labels, test_x=pictures, test_y=labels)
    plain, changed = (load_domain(f"cifar-10/{name}:test", data_dir=tmp_path) for name in ("ten", kind))
    assert isinstance(plain, LabelledDomain)
    assert isinstance(changed, LabelledDomain)
    np.testing.assert_array_equal(plain.labels, changed.labels)
    before, after = (domain.inputs.fetch(np.arange(6)) for domain in (plain, changed))
    assert not np.array_equal(before, after)
    # Noise moves every pixel; the other two draw values together.
    assert kind == "noisy" or after.std() < before.std()
