"""Whatever is wrong with the input: one screen that says so, exit code 2, and nothing half-written."""

import pytest

from shiftcal.faces.cli import main
from shiftcal.training.checkpoint import FORMAT_VERSION

SCREEN_LINES, SCREEN_CHARACTERS = 24, 24 * 80
OUT = "out"


def refusal(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The message of a command (words of a line) that is to fail."""
    try:
        code: object = main(line.split())
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    assert code == 2, captured
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert captured.err.startswith("shiftcal: ")
    assert len(captured.err) <= SCREEN_CHARACTERS
    assert captured.err.count("\n") <= SCREEN_LINES
    return captured.err


BAD_DATA = {
    # source and target, and what the message must say
    "source.npz wide.npz": ["(4,)", "(7,)"],
    "flat.npz target.npz": ["'x'", "(45,)", "(N, D)"],
    "no_rows.npz target.npz": ["at least one row", "(0, 4)"],
    "short_labels.npz target.npz": ["2 labels for 45 inputs"],
    "fractional_labels.npz target.npz": ["'y'", "whole number or text"],
    "unusual_names.npz target.npz": ["first", "second", "FILE.npz#x="],
    "nan.npz target.npz": ["NaN or infinite", "row 3", "nan.npz"],
    "source.npz nan.npz": ["NaN or infinite", "row 3"],
    "inf.npz target.npz": ["NaN or infinite", "row 3"],
    "one_class.npz target.npz": ["one class only", "'cat'"],
    "no_labels.npz target.npz": ["labels missing", "no_labels.npz"],
    "inputs.npy target.npz": ["labels missing", "inputs.npy"],
    "photos photos": ["labels missing", "sub-folder per class"],
    "source.npz other_classes.npz": ["class sets differ", "'bat'", "unlabelled:other_classes.npz"],
    "pictures source.npz": ["images of shape", "features of shape"],
    "pictures text": ["can't be opened as images", "fake.jpg"],
    "pictures truncated": ["can't decode the image", "cut.jpg", "truncated"],
    "truncated photos": ["labels missing"],
    "pictures empty": ["no image found", "'empty'", ".jpg"],
    "empty photos": ["no image found"],
    "missing.txt photos": ["photos/9.png"],
    "mixed.txt photos": ["line 2", "no label"],
    "words.npz target.npz": ["can't read 'words.npz'"],
    "words.md target.npz": ["can't tell what kind of data"],
    "nowhere.npz target.npz": ["no file 'nowhere.npz'"],
    "./nowhere target.npz": ["./nowhere", "A spec is"],
    "source.npz:test target.npz": ["unknown part", "'test'"],
    "source.npz#x=X,y=y target.npz": ["unknown array", "Known: x, y"],
    "~N target.npz": ["home directory", "~N", "A spec is"],
    f"{'n' * 300} target.npz": ["too long", "A spec is"],
    "nul\0.npz target.npz": ["null byte", r"nul\x00.npz"],
    "unlabelled:unlabelled:source.npz target.npz": ["unlabelled: once"],
    "digts/uci digits/mnist": ["unknown data set 'digts'", "Did you mean 'digits'"],
    "digits/uc digits/mnist": ["'uc'", "Did you mean 'uci'"],
    "digits/uci:tset digits/mnist": ["'tset'", "Did you mean 'test'"],
}


@pytest.mark.parametrize("specs", BAD_DATA)
def test_data(specs: str, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = specs.split()
    message = refusal(f"fit --source {source} --target {target} --out {OUT} --set epochs=1", capsys)
    for words in BAD_DATA[specs]:
        assert words in message


BAD_CHOICES = {
    "--method drll": ["unknown method 'drll'", "Did you mean 'drl'"],
    "--method nothing-like-it": ["unknown method", "Known: ", "importance-weighting"],
    "--calibrator temprature": ["unknown calibrator", "Did you mean 'temperature'"],
    "--backbone mpl": ["unknown backbone", "Did you mean 'mlp'"],
    "--backbone small-cnn": ["takes images", "choose 'mlp'"],
    "--backbone wrn-x": ["wrn-DEPTH-WIDTH"],
    "--set epoch=1": ["unknown option", "Did you mean 'epochs'"],
    "--set ratio_bond=2": ["unknown option", "Did you mean 'ratio_bound'"],
    "--set epochs": ["expected --set key=value", "'epochs'"],
    "--set epochs=0": ["'epochs'", "at least 1", "Got 0"],
    "--set epochs=many": ["'epochs'", "whole number", "'many'"],
    "--set learning_rate=-1": ["'learning_rate'", "more than 0", "-1"],
    "--set ratio_bound=1": ["'ratio_bound'", "more than 1"],
    "--set validation_fraction=1": ["'validation_fraction'", "less than 1"],
    "--set precision=fp8": ["'fp32' or 'bf16'", "'fp8'"],
    "--set device=gpu": ["device must be", "'gpu'"],
    "--image-size 0": ["at least 1", "0"],
    "--image-size big": ["whole number", "big"],
    "--image-size 100000": ["at most 10,000", "100000"],
    "--image-size 9000": ["at most 4,096", "9000"],
    "--set epochs=!!timestamp": ["'epochs'", "whole number", "!!timestamp"],
    "--set epoch_steps=1e12": ["'epoch_steps'", "at most 1,000,000"],
    "--set batch_size=1e10": ["'batch_size'", "at most 65,536"],
    "--set num_workers=500": ["'num_workers'", "at most 64"],
    "--set random_state=1e30": ["'random_state'", "at most 4,294,967,295"],
    "--test wide.npz": ["test data", "(4,)", "(7,)"],
    "--test other_classes.npz": ["class sets differ", "'bat'"],
    "--test nowhere.npz": ["no file 'nowhere.npz'"],
    "--calibrator temperature --source tiny.npz": ["too small", "at least 10 rows", "validation_fraction"],
    "--calibrator temperature --set validation_fraction=0": ["validation_fraction is 0"],
    "--sorce source.npz": ["unknown option '--sorce'", "Did you mean '--source'"],
}


@pytest.mark.parametrize("choice", BAD_CHOICES)
def test_names_and_values(choice: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(f"fit --source source.npz --target target.npz --out {OUT} --set epochs=1 {choice}", capsys)
    for words in BAD_CHOICES[choice]:
        assert words in message


def test_a_picture_that_only_the_last_prediction_decodes(capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(f"fit --source pictures --target photos --test truncated --out {OUT} --set epochs=1", capsys)
    assert "cut.jpg" in message


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("--source source.npz --target inputs.npy", "a learning curve needs labels"),
        ("--source source.npz --target target.npz --test inputs.npy", "'inputs.npy' has none"),
    ],
)
def test_learning_curve(data: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in refusal(f"fit {data} --out {OUT} --set epochs=1 --learning-curve", capsys)


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("words.md/run", "'words.md' is a file"),
        ("words.md", "'words.md' is a file"),
        ("run", "already holds a run"),
        ("photos", "holds other files"),
    ],
)
def test_output_folder(out: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in refusal(f"fit --source source.npz --target target.npz --out {out}", capsys)


BAD_CONFIGURATIONS = {
    "nowhere": ["no configuration file"],
    "not_yaml": ["not a YAML file", "line 2"],
    "no_mapping": ["expected a mapping", "'source'"],
    "no_source": ["'source'", "target.npz"],
    "unknown_key": ["unknown key", "Did you mean 'target'"],
    "unknown_training_key": ["unknown option of training", "Did you mean 'epochs'"],
    "unknown_method_key": ["unknown option of method 'drl'", "Did you mean 'ratio_bound'"],
    "unknown_calibrator_key": ["unknown option of calibrator 'histogram'", "Did you mean 'num_bins'"],
    "wrong_value": ["'ratio_bound'", "more than 1", "0.5"],
    "wrong_type": ["'calibrator'", "['temperature']"],
    "wrong_size": ["'image_size'", "'large'"],
    "huge_size": ["image_size", "at most 4,096", "100000"],
    "deep": ["at most 20 levels", "line 2"],
    "exploding": ["10,000 values", "aliases"],
    "endless": ["10,000 values", "aliases"],
    "twice": ["the key 'source' twice", "line 2"],
    "timestamp": ["timestamp"],
    "epochs": ["'epochs'", "at most 1,000,000", "1e300"],
    "wrong_label": ["'label' must be the name of a column"],
    "wrong_ignore": ["'ignore' must be a list of names"],
}


@pytest.mark.parametrize("name", BAD_CONFIGURATIONS)
def test_configuration_file(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(f"run {name}.yaml --out {OUT}", capsys)
    for words in BAD_CONFIGURATIONS[name]:
        assert words in message


BAD_RUNS = {
    "other_version": ["format 99", f"format {FORMAT_VERSION}", "train again"],
    "unfinished": ["not finished", "--resume"],
    "no_model": ["holds no model"],
    "odd_model": ["does not fit its own configuration"],
    "odd_weights": ["does not fit its own configuration"],
    "cut": ["damaged"],
    "no_bytes": ["damaged"],
    "words": ["damaged"],
    "gone": ["no checkpoint"],
    "nowhere": ["no checkpoint", "nowhere"],
    "words.md": ["no checkpoint"],
}


@pytest.mark.parametrize("command", [f"predict RUN --out {OUT}.csv", "evaluate RUN"])
@pytest.mark.parametrize("run", BAD_RUNS)
def test_checkpoint(run: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(f"{command.replace('RUN', run)} --data target.npz", capsys)
    for words in BAD_RUNS[run]:
        assert words in message
    assert "weights_only" not in message


BAD_NEW_DATA = {
    "run wide.npz": ["(4,)", "(7,)"],
    "run photos": ["(4,)", "(3, 32, 32)"],
    "run other_classes.npz": ["class sets differ", "'bat'"],
    "run nan.npz": ["NaN or infinite"],
    "picture_run target.npz": ["expected images", "features"],
    "picture_run truncated": ["cut.jpg"],
    "picture_run text": ["fake.jpg"],
    "picture_run empty": ["no image found"],
}


@pytest.mark.parametrize("command", [f"predict RUN --out {OUT}.csv", "evaluate RUN"])
@pytest.mark.parametrize("run_and_data", BAD_NEW_DATA)
def test_new_data(run_and_data: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    run, data = run_and_data.split()
    message = refusal(f"{command.replace('RUN', run)} --data {data}", capsys)
    for words in BAD_NEW_DATA[run_and_data]:
        assert words in message


def test_evaluation_without_labels(capsys: pytest.CaptureFixture[str]) -> None:
    assert "need labels" in refusal("evaluate run --data inputs.npy", capsys)


@pytest.mark.parametrize(
    ("out", "words"),
    [(f"{OUT}.txt", ".csv or .npz or .parquet"), (OUT, ".parquet"), ("words.md/p.csv", "is a file")],
)
def test_prediction_file(out: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in refusal(f"predict run --data target.npz --out {out}", capsys)


BAD_COMPARISONS = {
    "demoo drl": ["unknown task", "Did you mean 'demo'"],
    "source.npz-> drl": ["unknown task", "SOURCE->TARGET"],
    ", drl": ["at least one task"],
    "source.npz->target.npz ,": ["at least one method"],
    "source.npz->target.npz drll": ["unknown method", "Did you mean 'drl'"],
    "source.npz->target.npz drl+temprature": ["unknown calibrator", "Did you mean 'temperature'"],
    "source.npz->target.npz drl[ratio_bond=2]": ["unknown option", "Did you mean 'ratio_bound'"],
    "source.npz->target.npz drl[ratio_bound=1]": ["'ratio_bound'", "more than 1"],
    "source.npz->target.npz drl[": ["METHOD[key=value;...]"],
    "source.npz->target.npz drl[random_state=1]": ["random_state", "seed"],
    "source.npz->wide.npz drl": ["(4,)", "(7,)"],
    "source.npz->target.npz@wide.npz drl": ["(4,)", "(7,)"],
    "source.npz->inputs.npy drl": ["needs labels", "SOURCE->TARGET@TEST"],
    "source.npz->nowhere.npz drl": ["no file 'nowhere.npz'"],
    "tiny.npz->target.npz drl,drl+temperature": ["too small"],
    "source.npz->target.npz drl --backbone mpl": ["Did you mean 'mlp'"],
    "source.npz->target.npz drl --out words.md/c": ["is a file"],
    "source.npz->target.npz drl --out photos": ["holds other files"],
    "source.npz->target.npz drl --seeds 0": ["at least 1"],
    "source.npz->target.npz drl --jobs two": ["whole number"],
    "source.npz->target.npz drl --engine dask": ["'ray:ADDRESS'", "Got 'dask'"],
}


@pytest.mark.parametrize("line", BAD_COMPARISONS)
def test_comparison(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    tasks, methods, *more = line.split()
    command = f"compare --tasks {tasks} --methods {methods} --out {OUT} --set epochs=1 --seeds 1 {' '.join(more)}"
    message = refusal(command, capsys)
    for words in BAD_COMPARISONS[line]:
        assert words in message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("report nowhere", "not the folder of a run"),
        ("report photos", "not the folder of a run"),
        ("report run", "not finished"),
        ("predict nowhere --files table.csv --out scored", "no file at 'nowhere/checkpoint.pt'"),
        ("predict nowhere --out scored", "one of the arguments --data --files is required"),
        ("calibrate --source table.csv --out scored", "either --target FILE or --targets FILE"),
        ("list methds", "Did you mean 'methods'"),
        ("fitt", "Did you mean 'fit'"),
        ("fit", "required: --source"),
    ],
)
def test_other_commands(line: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in refusal(line, capsys)
