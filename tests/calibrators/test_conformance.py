"""What every calibrator of the registry must hold to."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from shiftcal.calibrators import CALIBRATORS
from shiftcal.core.errors import InvalidInputError
from shiftcal.data.batches import ShiftProblem
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel
from shiftcal.training.recipe import Recipe
from shiftcal.training.saved_model import load_model, save_model

pytestmark = pytest.mark.parametrize("name", CALIBRATORS)


@pytest.fixture(autouse=True)
def _estimate(
    name: str, estimate_quickly: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole estimate only for the calibrator that rests on it."""
    if name != "target-scaling":
        estimate_quickly(monkeypatch)


@pytest.fixture(scope="module")
def trained(features: ShiftProblem) -> FittedModel:
    return fit_model(features, Recipe.from_names("source-only", training={"epochs": 2}))


def test_it_stands_in_the_file_of_its_name(name: str) -> None:
    assert CALIBRATORS[name].__module__ == f"shiftcal.calibrators.{name.replace('-', '_')}"
    assert CALIBRATORS[name].__doc__


def test_it_calibrates_and_survives_saving(
    name: str, trained: FittedModel, features: ShiftProblem, tmp_path: Path
) -> None:
    model = trained.with_calibrator(name, features)
    logits = model.predict(features.source.inputs).logits
    assert logits.shape == (len(features.source), 3)
    assert torch.isfinite(logits).all()
    save_model(model, tmp_path / "model.pt")
    assert torch.equal(load_model(tmp_path / "model.pt").predict(features.source.inputs).logits, logits)


def test_without_held_out_data_it_says_so_or_does_without(name: str, features: ShiftProblem) -> None:
    recipe = Recipe.from_names("source-only", name, training={"epochs": 1, "validation_fraction": 0.0})
    if not CALIBRATORS[name].needs_held_out:
        assert torch.isfinite(fit_model(features, recipe).predict(features.source.inputs).logits).all()
        return
    with pytest.raises(InvalidInputError, match="held-out source data"):
        fit_model(features, recipe)
