import pytest

from shiftcal.calibrators.cpcs import Cpcs
from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.training.recipe import Recipe, decisive


def test_plain_values_make_the_same_recipe() -> None:
    recipe = Recipe.from_names(
        "source-only",
        "cpcs",
        method_options={"learning_rate": 0.5},
        calibrator_options={"ratio": "ulsif", "largest_weight": None},
        training={"epochs": 3},
    )
    plain = recipe.as_plain()
    assert plain["calibrator_options"]["largest_weight"] is None
    assert Recipe.from_names(**plain) == recipe
    assert recipe.calibrator == Cpcs(ratio="ulsif", largest_weight=None)


def test_another_calibrator_has_options_of_its_own() -> None:
    recipe = Recipe.from_names("source-only", "cpcs", calibrator_options={"ratio": "model"})
    assert recipe.with_calibrator("histogram", {"num_bins": 3}).as_plain()["calibrator_options"] == {"num_bins": 3}
    assert recipe.with_calibrator("cpcs").calibrator == Cpcs()
    assert recipe.with_calibrator(None).as_plain()["calibrator_options"] == {}


def test_calibrator_options_are_checked() -> None:
    with pytest.raises(UnknownNameError, match=r"of calibrator 'histogram' 'num_bin'\. Did you mean 'num_bins'"):
        Recipe.from_names("drl", "histogram", calibrator_options={"num_bin": 3})
    with pytest.raises(InvalidInputError, match="'num_bins' of calibrator 'histogram' must be a whole number"):
        Recipe.from_names("drl", "histogram", calibrator_options={"num_bins": 0})
    with pytest.raises(UnknownNameError, match="Did you mean 'gaussian'"):
        Recipe.from_names("drl", "transcal", calibrator_options={"ratio": "gausian"})
    with pytest.raises(InvalidInputError, match=r"expected a calibrator for .*'num_bins': 3.*, got none"):
        Recipe.from_names("drl", calibrator_options={"num_bins": 3})


def test_what_decides_is_flat_and_leaves_out_what_does_not() -> None:
    recipe = Recipe.from_names("source-only", "histogram", training={"device": "cpu"})
    other = Recipe.from_names("source-only", "histogram", training={"num_workers": 2})
    assert decisive(recipe.as_plain()) == decisive(other.as_plain())
    changed = recipe.with_calibrator("histogram", {"num_bins": 3})
    different = decisive(recipe.as_plain()).items() ^ decisive(changed.as_plain()).items()
    assert different == {("calibrator_options.num_bins", 15), ("calibrator_options.num_bins", 3)}
