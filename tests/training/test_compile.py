"""The option `compile`: dynamo traces as for users, and what it traced runs uncompiled, which takes no minute."""

import copy
import functools

import pytest
import torch

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.batches import ShiftProblem
from shiftcal.methods.networks.backbones import Backbone, InputStatistics, build_backbone
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe

pytestmark = [
    pytest.mark.usefixtures("quick_estimate"),
    # Dynamo itself looks at gradients of inputs that are no leaves.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]


@pytest.fixture
def _traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))


def backbone() -> Backbone:
    torch.manual_seed(0)
    return build_backbone("mlp", (4,), InputStatistics(torch.zeros(4), torch.ones(4)))


# Of the second, a gradient with respect to the inputs is a part of the loss.
@pytest.mark.parametrize("method", ["drst", "vada"])
@pytest.mark.usefixtures("_traced")
def test_compiled_backbones_train_the_same_network(features: ShiftProblem, method: str) -> None:
    training = {"epochs": 2, "batch_size": 32}
    plain = fit_model(features, Recipe.from_names(method, training=training))
    compiled = fit_model(features, Recipe.from_names(method, training={**training, "compile": True}))
    assert compiled.network.state_dict().keys() == plain.network.state_dict().keys()
    for name, value in plain.network.state_dict().items():
        torch.testing.assert_close(compiled.network.state_dict()[name], value, equal_nan=True)


@pytest.mark.usefixtures("_traced")
def test_a_copy_runs_its_own_body() -> None:
    """The function that was compiled holds the body of the original."""
    original = backbone()
    original.compile_body()
    copied = copy.deepcopy(original)
    for weights in original.parameters():
        torch.nn.init.zeros_(weights)
    assert copied(torch.ones(2, 4)).abs().sum() > 0
    assert original(torch.ones(2, 4)).abs().sum() == 0


def test_where_nothing_can_be_compiled_an_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: object) -> object:
        def call(_: object) -> None:
            raise RuntimeError("No working C++ compiler found\nand more")

        return call

    monkeypatch.setattr(torch, "compile", failing)
    with pytest.raises(InvalidInputError, match=r"No working C\+\+ compiler found\. Leave out compile=true"):
        backbone().compile_body()
