"""ONNX files of others: read or refused with one error, and nothing beside them is read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from shiftcal.core.errors import InvalidInputError
from shiftcal.methods.networks.onnx_body import OnnxBody

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
helper = onnx.helper
PICTURES = helper.make_tensor_value_info("x", 1, ["n", 3, "h", "w"])
MEANS = (helper.make_node("GlobalAveragePool", ["x"], ["p"]), helper.make_node("Flatten", ["p"], ["f"]))


def network(nodes: Any, inputs: Any, output: str, initializers: Any = ()) -> bytes:
    outputs = [helper.make_tensor_value_info(output, 1, None)]
    graph = helper.make_graph(list(nodes), "g", list(inputs), outputs, list(initializers))
    content: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    return content


def weights_elsewhere(place: str) -> bytes:
    weights = onnx.TensorProto(name="w", data_type=1, dims=[3, 4], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", place), ("offset", "0"), ("length", "48")):
        weights.external_data.add(key=key, value=value)
    return network([*MEANS, helper.make_node("MatMul", ["f", "w"], ["y"])], [PICTURES], "y", [weights])


def test_a_network_in_one_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "means.onnx").write_bytes(network(MEANS, [PICTURES], "f"))
    assert torch.equal(OnnxBody.read(tmp_path / "means.onnx")(torch.ones(2, 3, 4, 4)), torch.ones(2, 3))


def test_other_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those beside it nor those of the working folder; so too for one that comes in a checkpoint."""
    monkeypatch.chdir(tmp_path)
    Path("secret").write_bytes(np.arange(12, dtype=np.float32).tobytes())
    for place in ("secret", f"../{tmp_path.name}/secret", str(tmp_path / "secret")):
        Path("net.onnx").write_bytes(weights_elsewhere(place))
        with pytest.raises(InvalidInputError, match="Expected one file with all weights"):
            OnnxBody.read(Path("net.onnx"))
        with pytest.raises(InvalidInputError, match="Expected one file with all weights"):
            OnnxBody(weights_elsewhere(place))(torch.ones(2, 3, 4, 4))


def test_what_is_no_network_of_pictures_is_refused(tmp_path: Path) -> None:
    constant = helper.make_node("Constant", [], ["y"], value=helper.make_tensor("t", 1, [1], [1.0]))
    two = [PICTURES, helper.make_tensor_value_info("z", 1, ["n", 3, "h", "w"])]
    path = tmp_path / "net.onnx"
    for content, words in (
        (b"", "is an empty file"),
        (b"hello", "can't read it"),
        (network(MEANS, [PICTURES], "f")[:40], "can't read it"),
        (network([constant], [], "y"), r"one input, the pictures, and an output; got \[\]"),
        (network([helper.make_node("Add", ["x", "z"], ["y"])], two, "y"), r"got \['x', 'z'\]"),
    ):
        path.write_bytes(content)
        with pytest.raises(InvalidInputError, match=f"net.onnx': .*{words}"):
            OnnxBody.read(path)
