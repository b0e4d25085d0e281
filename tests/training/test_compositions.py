import pytest

from shiftcal.runs.comparison import parse_contenders
from shiftcal.runs.config import RunConfig
from shiftcal.training.compositions import COMPOSITIONS
from shiftcal.training.recipe import Recipe


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_a_composition_is_its_parts(name: str) -> None:
    whole = COMPOSITIONS[name]
    parts = Recipe.from_names(whole.method, whole.calibrator, calibrator_options=whole.calibrator_options)
    assert Recipe.from_names(name) == parts
    assert RunConfig(source="s", method=name).recipe() == parts
    (contender,) = parse_contenders(name)
    assert contender.name == whole.parts
    assert parse_contenders(whole.parts) == (contender,)


def test_a_calibrator_that_is_given_replaces_that_of_the_composition() -> None:
    recipe = Recipe.from_names("few-labels", "temperature")
    assert recipe == Recipe.from_names("drssl", "temperature")
    assert recipe.parts == "drssl+temperature"


def test_options_of_its_calibrator_can_be_set() -> None:
    assert Recipe.from_names("few-labels", calibrator_options={"ratio_bound": 5.0}) == Recipe.from_names(
        "drssl", "target-scaling", calibrator_options={"keep_source": True, "ratio_bound": 5.0}
    )
