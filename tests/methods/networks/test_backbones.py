from __future__ import annotations

import copy
import importlib.util
import re
from typing import Any, NoReturn

import pytest
import torch
from torch import Tensor, nn

from shiftcal.core.errors import DataUnavailableError, InvalidInputError, MissingDependencyError, UnknownNameError
from shiftcal.core.vision_guard import import_timm
from shiftcal.methods.networks import backbones
from shiftcal.methods.networks.backbones import (
    BACKBONES,
    Backbone,
    BackboneSpec,
    BodyWithDenseLayer,
    InputShape,
    InputStatistics,
    build_backbone,
    default_image_size,
    resolve_backbone,
    without_pretrained,
)

needs_timm = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")

FEATURES: InputShape = (5,)
GREY: InputShape = (1, 12, 12)
RGB: InputShape = (3, 32, 32)


def plain_statistics(shape: InputShape) -> InputStatistics:
    return InputStatistics(torch.zeros(shape[0]), torch.ones(shape[0]))


def build(spec: BackboneSpec, shape: InputShape) -> Backbone:
    return build_backbone(spec, shape, plain_statistics(shape))


def shapes_of(name: str) -> list[InputShape]:
    images = [GREY, RGB, (3, 9, 13)]
    kind = BACKBONES[name].kind if name in BACKBONES else "images"
    return {"any": [FEATURES, *images], "images": images, "features": [FEATURES]}[kind]


@pytest.mark.parametrize(("name", "shape"), [(name, shape) for name in BACKBONES for shape in shapes_of(name)])
def test_every_backbone_gives_as_many_features_as_it_says(name: str, shape: InputShape) -> None:
    backbone = build(name, shape).eval()
    assert backbone(torch.rand(3, *shape)).shape == (3, backbone.feature_dim)


@pytest.mark.parametrize("name", [name for name, entry in BACKBONES.items() if entry.kind == "images"])
def test_networks_for_images_refuse_features(name: str) -> None:
    with pytest.raises(
        InvalidInputError, match=rf"'{name}' takes images .* got features of shape \(5,\); choose 'mlp'"
    ):
        build(name, FEATURES)


@pytest.mark.parametrize("name", BACKBONES)
def test_a_sample_does_not_depend_on_its_batch(name: str) -> None:
    shape = shapes_of(name)[-1]
    backbone = build(name, shape).eval()
    inputs = torch.rand(4, *shape)
    torch.testing.assert_close(backbone(inputs)[:1], backbone(inputs[:1]))


def test_auto_is_chosen_by_the_inputs() -> None:
    assert resolve_backbone("auto", FEATURES) == "mlp"
    assert resolve_backbone("auto", GREY) == "small-cnn"
    assert resolve_backbone("wrn-10-1", GREY) == "wrn-10-1"
    assert build("auto", FEATURES).feature_dim == build("mlp", FEATURES).feature_dim
    assert build("auto", GREY).feature_dim == build("small-cnn", GREY).feature_dim


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("size", [12, 16, 32])
def test_the_small_cnn_pools_maps_of_every_size_to_the_same(size: int, layout: torch.memory_format) -> None:
    """Also where there is nothing to pool, as of pictures of 16 pixels: features and gradients are the same."""
    body = build("small-cnn", (1, size, size)).body
    assert isinstance(body, nn.Sequential)
    always = nn.Sequential(*(nn.AdaptiveAvgPool2d(4) if isinstance(m, nn.AdaptiveAvgPool2d) else m for m in body))
    inputs = torch.rand(3, 1, size, size).contiguous(memory_format=layout)
    found, expected = (
        torch.autograd.grad(network(inputs).square().sum(), list(network.parameters())) for network in (body, always)
    )
    assert torch.equal(body(inputs), always(inputs))
    assert all(map(torch.equal, found, expected))


def test_any_wide_resnet_works() -> None:
    assert build("wrn-10-3", GREY).feature_dim == 192
    with pytest.raises(InvalidInputError, match="wrn-DEPTH-WIDTH"):
        build("wrn-11-1", GREY)


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        ("auto", 32),
        ("mlp", 32),
        ("wrn-16-4", 32),
        (nn.Flatten(), 32),
        ("resnet50", 224),
        ("resnet50:pretrained", 224),
        ("auto+64", 32),
        ("small-cnn+64", 32),
        ("wrn-16-4+64", 32),
        ("resnet50+256", 224),
        ("resnet50:pretrained+256", 224),
    ],
)
def test_files_have_a_size_that_suits_the_network(spec: BackboneSpec, size: int) -> None:
    assert default_image_size(spec) == size


@pytest.mark.parametrize(
    ("name", "shape"), [(name, shape) for name in (*BACKBONES, "wrn-10-1") for shape in shapes_of(name)]
)
def test_a_dense_layer_follows_any_body(name: str, shape: InputShape) -> None:
    widened = build(f"{name}+7", shape).eval()
    assert isinstance(widened.body, BodyWithDenseLayer)
    body, dense = widened.body[0], widened.body[2]
    assert isinstance(dense, nn.Linear)
    assert (dense.in_features, widened.feature_dim) == (build(name, shape).feature_dim, 7)
    with torch.no_grad():
        dense.bias[:2] = -100.0  # two features are below 0 before they are cut off
        inputs = torch.rand(3, *shape)
        by_hand = (body(inputs).flatten(1) @ dense.weight.T + dense.bias).clamp_min(0)
        torch.testing.assert_close(widened(inputs), by_hand)


def test_a_dense_layer_is_saved_and_trained_with_its_body() -> None:
    first, second = build("mlp+4", FEATURES), build("mlp+4", FEATURES)
    second.load_state_dict(first.state_dict())
    inputs = torch.rand(3, 5)
    assert torch.equal(first(inputs), second(inputs))
    assert len(list(first.parameters())) == len(list(build("mlp", FEATURES).parameters())) + 2


def test_auto_keeps_its_width() -> None:
    assert resolve_backbone("auto+64", FEATURES) == "mlp+64"
    assert resolve_backbone("auto+64", GREY) == "small-cnn+64"
    assert build("auto+64", GREY).feature_dim == 64


@pytest.mark.parametrize(
    "spec",
    ["mlp+", "mlp+0", "mlp+-3", "mlp+6.5", "mlp+x", "mlp+64+32", "mlp+1000000", "+64", "resnet50+512:pretrained"],
)
def test_anything_but_a_width_at_the_end_is_refused(spec: str) -> None:
    message = re.escape("expected a backbone as NAME or NAME+WIDTH") + ".*" + re.escape(f"got {spec!r}")
    for use in (lambda: build(spec, FEATURES), lambda: default_image_size(spec), lambda: without_pretrained(spec)):
        with pytest.raises(InvalidInputError, match=message):
            use()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("auto", "auto"),
        ("small-cnn+64", "small-cnn+64"),
        ("resnet50", "resnet50"),
        ("resnet50:pretrained", "resnet50"),
        ("resnet50:pretrained+512", "resnet50+512"),
    ],
)
def test_the_same_form_without_pretrained_weights(spec: str, expected: str) -> None:
    assert without_pretrained(spec) == expected
    module = nn.Flatten()
    assert without_pretrained(module) is module


@pytest.mark.parametrize("shape", [FEATURES, (2, 3, 4)])
def test_statistics_normalise_each_feature_or_channel(shape: InputShape) -> None:
    torch.manual_seed(0)
    scale = torch.arange(1.0, 1 + shape[0]).view(-1, *(1,) * (len(shape) - 1))
    inputs = 7 + scale * torch.randn(2000, *shape)
    dimensions = [dim for dim in range(inputs.ndim) if dim != 1]
    statistics = InputStatistics(inputs.mean(dim=dimensions), inputs.std(dim=dimensions))
    features = build_backbone("linear", shape, statistics)(inputs).view(-1, *shape)
    torch.testing.assert_close(features.mean(dim=dimensions), torch.zeros(shape[0]), atol=1e-4, rtol=0)
    torch.testing.assert_close(features.std(dim=dimensions), torch.ones(shape[0]), atol=1e-4, rtol=0)


def test_statistics_are_saved_with_the_weights() -> None:
    statistics = InputStatistics(torch.full((5,), 2.0), torch.full((5,), 4.0))
    trained, fresh = build_backbone("mlp", FEATURES, statistics), build("mlp", FEATURES)
    fresh.load_state_dict(trained.state_dict())
    inputs = torch.rand(3, 5)
    assert torch.equal(fresh(inputs), trained(inputs))


def test_new_backbones_have_new_weights() -> None:
    inputs = torch.rand(3, 5)
    assert not torch.equal(build("mlp", FEATURES)(inputs), build("mlp", FEATURES)(inputs))


def test_a_module_of_the_user_is_copied_and_not_changed() -> None:
    module = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout())
    before = copy.deepcopy(module.state_dict())
    backbone = build(module, FEATURES)
    assert backbone.feature_dim == 4
    assert backbone.training
    optimizer = torch.optim.SGD(backbone.parameters(), lr=1.0)
    backbone(torch.rand(8, 5)).square().sum().backward()
    optimizer.step()
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert module.training
    assert all(parameter.grad is None for parameter in module.parameters())


def test_the_size_of_features_is_found_without_moving_statistics() -> None:
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    body = build(module, GREY).body
    assert all(torch.equal(value, module.state_dict()[name]) for name, value in body.state_dict().items())
    assert build(module, GREY).feature_dim == 2 * 10 * 10


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Linear(4, 3), FEATURES),
        (nn.Conv2d(3, 4, 3), GREY),
        (nn.BatchNorm2d(5), FEATURES),
        (nn.LSTM(5, 3), FEATURES),
    ],
    ids=["width", "channels", "dimensions", "several outputs"],
)
def test_a_module_that_does_not_fit_is_an_error_of_the_input(module: nn.Module, shape: InputShape) -> None:
    with pytest.raises(InvalidInputError, match=r"the backbone can't take inputs of shape \("):
        build(module, shape)


@needs_timm
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 32, 32)])
def test_timm_models_take_any_number_of_channels(shape: InputShape) -> None:
    backbone = build("resnet10t", shape).eval()
    assert backbone(torch.rand(2, *shape)).shape == (2, backbone.feature_dim) == (2, 512)
    widened = build("resnet10t+24", shape).eval()
    assert widened(torch.rand(2, *shape)).shape == (2, widened.feature_dim) == (2, 24)


@needs_timm
def test_timm_models_refuse_features_and_images_of_another_size() -> None:
    with pytest.raises(InvalidInputError, match=r"'resnet10t' takes images \(N, C, H, W\), got features"):
        build("resnet10t", FEATURES)
    with pytest.raises(InvalidInputError, match=r"can't take inputs of shape \(3, 32, 32\): .*doesn't match model"):
        build("vit_tiny_patch16_224", RGB)


@needs_timm
@pytest.mark.parametrize(
    ("name", "close"), [("smal-cnn", "small-cnn"), ("resnet5O", "resnet50"), ("linaer", "linear")]
)
def test_unknown_names_suggest_ours_and_those_of_timm(name: str, close: str) -> None:
    with pytest.raises(UnknownNameError, match=f"unknown backbone '{name}'. Did you mean '{close}'"):
        build(name, RGB)


def test_without_timm_unknown_names_mention_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> NoReturn:
        raise MissingDependencyError("a timm model", "timm", "vision")

    monkeypatch.setattr(backbones, "import_timm", absent)
    with pytest.raises(UnknownNameError, match=r"extra 'vision'\) 'smal-cnn'\. Did you mean 'small-cnn'"):
        build("smal-cnn", RGB)


class PretrainedBody(nn.Module):
    """Stands for a model of timm with weights: only its settings and its number of channels matter."""

    pretrained_cfg = {"mean": (0.1, 0.2, 0.3), "std": (0.5, 1.0, 1.5)}  # noqa: RUF012 - as timm has it

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, images: Tensor) -> Tensor:
        assert images.shape[1] == self.channels
        return images.mean(dim=(2, 3))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []

    def create_model(name: str, **settings: Any) -> nn.Module:
        made.append({"name": name, **settings})
        return PretrainedBody(settings["in_chans"])

    monkeypatch.setattr(import_timm(), "create_model", create_model)
    return made


@needs_timm
def test_pretrained_models_come_with_their_own_normalisation(calls: list[dict[str, Any]]) -> None:
    backbone = build("resnet10t:pretrained", RGB)
    assert calls == [{"name": "resnet10t", "pretrained": True, "num_classes": 0, "in_chans": 3}]
    images = torch.rand(2, *RGB)
    expected = (images.mean(dim=(2, 3)) - torch.tensor([0.1, 0.2, 0.3])) / torch.tensor([0.5, 1.0, 1.5])
    torch.testing.assert_close(backbone(images), expected)


@needs_timm
@pytest.mark.parametrize("channels", [1, 4])
def test_pretrained_models_take_other_numbers_of_channels(calls: list[dict[str, Any]], channels: int) -> None:
    shape = (channels, 8, 8)
    backbone = build("resnet10t:pretrained", shape)
    assert calls[0]["in_chans"] == channels
    images = torch.rand(2, *shape)
    torch.testing.assert_close(backbone(images), images.mean(dim=(2, 3)) - 0.2)
    # As a checkpoint is loaded: into a model that was made without weights.
    build("resnet10t", shape).load_state_dict(backbone.state_dict())
    backbone.load_state_dict(backbone.state_dict())


@needs_timm
def test_pretrained_models_with_a_dense_layer_keep_their_normalisation(calls: list[dict[str, Any]]) -> None:
    backbone = build("resnet10t:pretrained+6", RGB)
    assert calls == [{"name": "resnet10t", "pretrained": True, "num_classes": 0, "in_chans": 3}]
    torch.testing.assert_close(backbone.mean.flatten(), torch.tensor([0.1, 0.2, 0.3]))
    assert backbone(torch.rand(2, *RGB)).shape == (2, 6)
    # As a checkpoint is loaded: into a model of the same form that fetches nothing.
    build(without_pretrained("resnet10t:pretrained+6"), RGB).load_state_dict(backbone.state_dict())
    assert calls[-1]["pretrained"] is False


@needs_timm
def test_models_without_weights_take_the_statistics_of_the_data(calls: list[dict[str, Any]]) -> None:
    backbone = build("resnet10t", RGB)
    assert calls[0]["pretrained"] is False
    images = torch.rand(2, *RGB)
    torch.testing.assert_close(backbone(images), images.mean(dim=(2, 3)))


@needs_timm
@pytest.mark.parametrize("error", [FileNotFoundError("no connection"), RuntimeError("no connection")])
def test_weights_that_can_not_be_fetched_are_named(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def create_model(name: str, **settings: Any) -> NoReturn:
        raise error

    monkeypatch.setattr(import_timm(), "create_model", create_model)
    with pytest.raises(DataUnavailableError, match="can't get the pretrained weights of 'resnet10t': no connection"):
        build("resnet10t:pretrained", RGB)
