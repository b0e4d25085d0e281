"""The network of an ONNX file as a body that gives features, and that can't be trained."""

from __future__ import annotations

import importlib
import importlib.util
import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftcal.core.errors import DataUnavailableError, InvalidInputError, MissingDependencyError

_ANY_SIZE = 224


class OnnxBody(nn.Module):
    """Images (N, 3, H, W) to the first output of the network, a row for each.

    The file itself is the state of the module: what is saved with a model needs no file beside it.
    """

    file: Tensor

    def __init__(self, content: bytes) -> None:
        super().__init__()
        if not content:
            raise InvalidInputError("the ONNX backbone is an empty file")
        self.register_buffer("file", torch.frombuffer(bytearray(content), dtype=torch.uint8))

    @classmethod
    def read(cls, path: Path) -> OnnxBody:
        """The network of a file.

        Raises:
            DataUnavailableError: there is no such file.
            InvalidInputError: it is none that ONNX Runtime can read.
            MissingDependencyError: ONNX Runtime is not installed.
        """
        try:
            content = path.expanduser().read_bytes()
        except OSError as error:
            raise DataUnavailableError(f"can't read the backbone {str(path)!r}: {error.strerror}") from error
        try:
            body = cls(content)
            _ = body.session
        except InvalidInputError as error:
            raise InvalidInputError(f"{str(path)!r}: {error}") from error
        return body

    @cached_property
    def session(self) -> Any:
        """Of ONNX Runtime, on whatever it finds: a GPU before the CPU.

        Raises:
            InvalidInputError: it is none that ONNX Runtime can read, or it has not one input or no output.
            MissingDependencyError: ONNX Runtime is not installed.
        """
        if importlib.util.find_spec("onnxruntime") is None:
            raise MissingDependencyError("an ONNX backbone", "onnxruntime", "onnx")
        runtime = importlib.import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        # Weights in other files would be looked for in the working folder, whoever made the network: in none instead.
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
        content = self.file.cpu().numpy().tobytes()
        try:
            session = runtime.InferenceSession(content, options, providers=runtime.get_available_providers())
        except Exception as error:  # ONNX Runtime has errors of its own, without a common one of Python's
            raise InvalidInputError(
                f"ONNX Runtime can't read it: {error}. Expected one file with all weights in it."
            ) from error
        if len(session.get_inputs()) != 1 or not session.get_outputs():
            names = [value.name for value in session.get_inputs()]
            raise InvalidInputError(f"expected a network with one input, the pictures, and an output; got {names}")
        return session

    @property
    def image_size(self) -> int:
        """Side that the network asks for; 224 if it takes any."""
        side = self.session.get_inputs()[0].shape[-1]
        return side if isinstance(side, int) else _ANY_SIZE

    @property
    def statistics(self) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of the channels as the file's metadata `mean` and `std` say: "0.485,0.456,0.406"."""
        known = self.session.get_modelmeta().custom_metadata_map
        if not {"mean", "std"} <= known.keys():
            return None
        try:
            mean, deviation = (
                torch.tensor([float(part) for part in known[key].split(",")]) for key in ("mean", "std")
            )
        except ValueError as error:
            raise InvalidInputError(
                f"metadata of the ONNX backbone: expected numbers with commas as mean and std, got "
                f"{known['mean']!r} and {known['std']!r}"
            ) from error
        return mean, deviation

    def forward(self, inputs: Tensor) -> Tensor:
        """Features (N, ...)."""
        name = self.session.get_inputs()[0].name
        features = self.session.run(None, {name: inputs.cpu().numpy()})[0]
        return torch.from_numpy(np.asarray(features, dtype=np.float32)).to(inputs.device)

    def __getstate__(self) -> dict[str, Any]:
        # A session can be neither copied nor sent to another process; it is made again of the file.
        return {name: value for name, value in self.__dict__.items() if name != "session"}
