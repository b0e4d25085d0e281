import copy

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftcal.core.errors import InvalidInputError
from shiftcal.methods.networks.backbones import Backbone, BackboneSpec, InputStatistics, build_backbone
from shiftcal.methods.networks.cross_attention import check_transformer, cross_branch, own_branch

Array = NDArray[np.float64]
STATISTICS = InputStatistics(torch.tensor([0.4]), torch.tensor([0.3]))


def images(num_rows: int, seed: int = 0) -> Tensor:
    return torch.rand(num_rows, 1, 8, 8, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def tiny_transformer(tiny_transformer: nn.Module) -> nn.Module:
    """One that may be changed."""
    return copy.deepcopy(tiny_transformer)


@pytest.fixture
def backbone(tiny_transformer: nn.Module) -> Backbone:
    """With weights large enough for attention to make a difference."""
    with torch.no_grad():
        for number, parameter in enumerate(tiny_transformer.parameters()):
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number)))
    return build_backbone(tiny_transformer, (1, 8, 8), STATISTICS).eval()


def test_the_own_branch_is_the_backbone_itself(backbone: Backbone) -> None:
    branch = own_branch(backbone, images(3))
    torch.testing.assert_close(branch.features, backbone(images(3)))
    assert branch.block_inputs.shape == (2, 3, 5, 16)
    chosen = branch.rows(torch.tensor([2, 0]))
    torch.testing.assert_close(chosen.features, backbone(images(3)[[2, 0]]))
    assert torch.equal(chosen.block_inputs, branch.block_inputs[:, [2, 0]])


def test_an_image_that_looks_at_itself_gives_its_own_branch(backbone: Backbone) -> None:
    branch = own_branch(backbone, images(3))
    torch.testing.assert_close(cross_branch(backbone, branch, branch), branch.features)


def test_cross_attention_against_numpy(backbone: Backbone) -> None:
    """One head after the other, in double precision, from the weights alone."""
    source, target = own_branch(backbone, images(2)), own_branch(backbone, images(2, seed=1))
    found = cross_branch(backbone, source, target)
    weights = {name: value.double().numpy() for name, value in backbone.body.state_dict().items()}

    def norm(tokens: Array, name: str) -> Array:
        scaled = (tokens - tokens.mean(-1, keepdims=True)) / np.sqrt(tokens.var(-1, keepdims=True) + 1e-6)
        return np.asarray(scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"])

    def linear(tokens: Array, name: str) -> Array:
        return np.asarray(tokens @ weights[f"{name}.weight"].T + weights[f"{name}.bias"])

    for row in range(2):
        tokens = target.block_inputs[0, row].detach().double().numpy()
        for block in range(2):
            name = f"blocks.{block}"
            asking, asked = (
                linear(
                    norm(branch.block_inputs[block, row].detach().double().numpy(), f"{name}.norm1"),
                    f"{name}.attn.qkv",
                )
                for branch in (source, target)
            )
            heads = []
            for head in range(2):
                query, key, value = (
                    part[:, 16 * kind + 8 * head : 16 * kind + 8 * head + 8]
                    for kind, part in enumerate((asking, asked, asked))
                )
                scores = np.exp(query @ key.T / np.sqrt(8))
                heads.append(scores / scores.sum(-1, keepdims=True) @ value)
            tokens = tokens + linear(np.concatenate(heads, axis=1), f"{name}.attn.proj")
            hidden = torch.from_numpy(linear(norm(tokens, f"{name}.norm2"), f"{name}.mlp.fc1"))
            tokens = tokens + linear(nn.functional.gelu(hidden).numpy(), f"{name}.mlp.fc2")
        expected = norm(tokens, "norm")[0]
        np.testing.assert_allclose(found[row].detach().numpy(), expected, atol=1e-4)


def test_both_images_matter(backbone: Backbone) -> None:
    first, second, third = (own_branch(backbone, images(1, seed)) for seed in range(3))
    crossed = cross_branch(backbone, first, second)
    assert not torch.allclose(crossed, cross_branch(backbone, third, second), atol=1e-3)
    assert not torch.allclose(crossed, cross_branch(backbone, first, third), atol=1e-3)


def test_gradients_reach_both_images(backbone: Backbone) -> None:
    inputs = [images(2, seed).requires_grad_() for seed in range(2)]
    crossed = cross_branch(backbone, *(own_branch(backbone, values) for values in inputs))
    assert all(gradient.abs().sum() > 0 for gradient in torch.autograd.grad(crossed[:, 0].sum(), inputs))


def test_no_pairs_give_no_features(backbone: Backbone) -> None:
    nobody = own_branch(backbone, images(3)).rows(torch.empty(0, dtype=torch.int64))
    assert cross_branch(backbone, nobody, nobody).shape == (0, 16)


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "deit_tiny_patch16_224", "deit_tiny_distilled_patch16_224"])
@pytest.mark.usefixtures("tiny_transformer")
def test_transformers_of_timm_work(name: str) -> None:
    statistics = InputStatistics(torch.zeros(3), torch.ones(3))
    backbone = build_backbone(name, (3, 224, 224), statistics).eval()
    check_transformer(backbone)
    inputs = torch.rand(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        branch = own_branch(backbone, inputs)
        torch.testing.assert_close(branch.features, backbone(inputs))
        torch.testing.assert_close(cross_branch(backbone, branch, branch), branch.features, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("spec", "found"), [("small-cnn", "Sequential"), (nn.Flatten(), "Flatten")])
@pytest.mark.usefixtures("tiny_transformer")
def test_other_backbones_are_refused_with_the_names_of_some_that_work(spec: BackboneSpec, found: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"'deit_tiny_patch16_224'.*got {found}"):
        check_transformer(build_backbone(spec, (1, 8, 8), STATISTICS))


def test_a_dense_layer_behind_a_transformer_is_refused_and_not_left_out(tiny_transformer: nn.Module) -> None:
    widened = Backbone(tiny_transformer, (1, 8, 8), STATISTICS, dense_width=6)
    with pytest.raises(InvalidInputError, match="got BodyWithDenseLayer"):
        check_transformer(widened)


def test_transformers_with_blocks_of_another_kind_are_refused(tiny_transformer: nn.Module) -> None:
    blocks = tiny_transformer.get_submodule("blocks")
    assert isinstance(blocks, nn.Sequential)
    blocks[1] = nn.Identity()
    with pytest.raises(InvalidInputError, match="ordinary blocks"):
        check_transformer(build_backbone(tiny_transformer, (1, 8, 8), STATISTICS))


@pytest.mark.parametrize("part", ["gate", "norm"])
def test_attention_with_further_parts_is_refused(part: str, tiny_transformer: nn.Module) -> None:
    setattr(tiny_transformer.get_submodule("blocks.1.attn"), part, nn.Linear(16, 16))
    with pytest.raises(InvalidInputError, match="ordinary blocks"):
        check_transformer(build_backbone(tiny_transformer, (1, 8, 8), STATISTICS))
