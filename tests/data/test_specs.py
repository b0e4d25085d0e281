from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs, ImageFormat
from shiftcal.data.specs import load_domain, load_pair


def write_image(path: Path, size: tuple[int, int] = (6, 5), mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size).save(path)


def write_images(root: Path, *names: str) -> None:
    for name in names:
        write_image(root / name)


def labelled(spec: str | Path) -> LabelledDomain:
    domain = load_domain(spec)
    assert isinstance(domain, LabelledDomain)
    return domain


def names_of(domain: LabelledDomain | UnlabelledDomain) -> list[str]:
    return [domain.inputs.identify(row) for row in range(len(domain))]


def save_arrays(path: Path, arrays: Mapping[str, object]) -> None:
    np.savez(path, **arrays)  # type: ignore[arg-type]


class TestFolders:
    def test_one_sub_folder_per_class(self, tmp_path: Path) -> None:
        write_images(tmp_path, "dog/2.JPG", "dog/1.png", "cat/deep/er/3.webp", ".hidden/4.png", "dog/.5.png")
        (tmp_path / "empty").mkdir()
        (tmp_path / "dog" / "notes.md").touch()
        domain = labelled(tmp_path)
        assert domain.classes == ("cat", "dog")
        assert domain.labels.tolist() == [0, 1, 1]
        assert names_of(domain) == ["cat/deep/er/3.webp", "dog/1.png", "dog/2.JPG"]
        assert domain.inputs.shape == (3, 32, 32)
        assert domain.name == str(tmp_path)

    def test_single_sub_folder_is_passed_through(self, tmp_path: Path) -> None:
        write_images(tmp_path, "images/dog/1.png", "images/cat/1.png")
        assert labelled(tmp_path).classes == ("cat", "dog")

    def test_flat_folder_has_no_labels(self, tmp_path: Path) -> None:
        write_images(tmp_path, "2.png", "1.gif", "more/3.png")
        domain = load_domain(tmp_path)
        assert isinstance(domain, UnlabelledDomain)
        assert names_of(domain) == ["1.gif", "2.png", "more/3.png"]

    def test_images_in_one_sub_folder_only_have_no_labels(self, tmp_path: Path) -> None:
        write_images(tmp_path, "photos/1.png", "photos/2.png")
        assert isinstance(load_domain(tmp_path), UnlabelledDomain)

    @pytest.mark.parametrize("prefix", ["unlabelled:", "unlabeled:"])
    def test_prefix_takes_labels_away(self, prefix: str, tmp_path: Path) -> None:
        write_images(tmp_path, "2024/1.png", "2025/1.png")
        domain = load_domain(f"{prefix}{tmp_path}")
        assert isinstance(domain, UnlabelledDomain)
        assert domain.name == str(tmp_path)
        assert names_of(domain) == ["2024/1.png", "2025/1.png"]
        assert isinstance(load_domain(f"{prefix}digits/uci"), UnlabelledDomain)

    def test_links_are_followed_and_circles_end(self, tmp_path: Path) -> None:
        write_images(tmp_path / "real", "1.png")
        data = tmp_path / "data"
        (data / "cat").mkdir(parents=True)
        (data / "dog").symlink_to(tmp_path / "real")
        (data / "cat" / "1.png").symlink_to(tmp_path / "real" / "1.png")
        (data / "cat" / "again").symlink_to(data / "cat")
        assert names_of(labelled(data)) == ["cat/1.png", "dog/1.png"]

    def test_only_grey_files_make_grey_inputs(self, tmp_path: Path) -> None:
        write_image(tmp_path / "1.png", mode="L")
        assert load_domain(tmp_path).inputs.shape == (1, 32, 32)
        write_image(tmp_path / "2.png", mode="P")
        assert load_domain(tmp_path).inputs.shape == (3, 32, 32)

    def test_empty_folder(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInputError, match=r"no image found in the folder.*\.jpg.*begins with a dot"):
            load_domain(tmp_path)

    def test_files_that_are_no_images(self, tmp_path: Path) -> None:
        write_images(tmp_path, "good.png")
        for number in range(5):
            (tmp_path / f"bad{number}.png").write_text("no image")
        with pytest.raises(InvalidInputError, match=r"5 of 6 files can't be opened.*bad0.*bad2\.png', \.\.\."):
            load_domain(tmp_path)

    def test_format_of_a_model(self, tmp_path: Path) -> None:
        write_images(tmp_path, "1.png")
        domain = load_domain(tmp_path, image_format=ImageFormat(16, 1))
        assert domain.inputs.fetch(np.array([0])).shape == (1, 1, 16, 16)


class TestLists:
    def write_list(self, folder: Path, text: str, name: str = "list.txt") -> Path:
        write_images(folder, "a/1.png", "my photos/2.png")
        (folder / name).write_text(text, encoding="utf-8")
        return folder / name

    def test_text_labels_and_spaces(self, tmp_path: Path) -> None:
        domain = labelled(self.write_list(tmp_path, "a/1.png dog\n\nmy photos/2.png  cat\n"))
        assert domain.classes == ("cat", "dog")
        assert domain.labels.tolist() == [1, 0]
        assert names_of(domain) == ["a/1.png", "my photos/2.png"]

    def test_whole_numbers_are_sorted_as_numbers(self, tmp_path: Path) -> None:
        domain = labelled(self.write_list(tmp_path, "a/1.png 10\nmy photos/2.png 9\n", "list.LST"))
        assert domain.classes == (9, 10)
        assert domain.labels.tolist() == [1, 0]

    def test_paths_alone(self, tmp_path: Path) -> None:
        domain = load_domain(self.write_list(tmp_path, "my photos/2.png\na/1.png\n"))
        assert isinstance(domain, UnlabelledDomain)
        assert names_of(domain) == ["my photos/2.png", "a/1.png"]

    def test_paths_elsewhere(self, tmp_path: Path) -> None:
        write_images(tmp_path, "far/1.png")
        (tmp_path / "lists").mkdir()
        absolute = tmp_path / "far/1.png"
        (tmp_path / "lists" / "list.txt").write_text(f"../far/1.png\n{absolute}\n")
        assert names_of(load_domain(tmp_path / "lists" / "list.txt")) == ["../far/1.png", str(absolute)]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "is empty"),
            ("a/1.png dog\nmy photos/2.png\n", "line 2 has no label unlike the lines before it: 'my photos/2.png'"),
            ("a/1.png\n\nmy photos/2.png 3\n", "line 3 has a label unlike"),
            ("nonsense\n", "line 1: expected 'path label'"),
            (
                "a/1.png 1\na/8.png 1\na/9.png 2\n",
                r"2 of 3 files of the list .* do not exist, the first is '.*8\.png'",
            ),
        ],
    )
    def test_errors_name_the_line(self, text: str, message: str, tmp_path: Path) -> None:
        with pytest.raises(InvalidInputError, match=message):
            load_domain(self.write_list(tmp_path, text))

    def test_other_encodings(self, tmp_path: Path) -> None:
        (tmp_path / "list.txt").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(InvalidInputError, match="can't read the image list"):
            load_domain(tmp_path / "list.txt")


FEATURES = np.arange(6, dtype=np.float16).reshape(3, 2)
IMAGES = np.arange(3 * 4 * 4 * 3, dtype=np.uint8).reshape(3, 4, 4, 3)


class TestArrays:
    @pytest.mark.parametrize(
        ("inputs", "labels"), [("x", "y"), ("X", "y"), ("images", "labels"), ("train_x", "train_y")]
    )
    def test_usual_names(self, inputs: str, labels: str, tmp_path: Path) -> None:
        save_arrays(tmp_path / "data.npz", {inputs: FEATURES, labels: np.array([7, 5, 7])})
        domain = labelled(tmp_path / "data.npz")
        assert domain.classes == (5, 7)
        assert domain.labels.tolist() == [1, 0, 1]
        assert torch.equal(domain.inputs.fetch(np.arange(3)), torch.from_numpy(FEATURES).float())

    def test_labels_may_be_text_or_absent(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "text.npz", x=FEATURES, y=np.array([b"b", b"a", b"b"]))
        assert labelled(tmp_path / "text.npz").classes == ("a", "b")
        np.savez(tmp_path / "bare.npz", x=FEATURES)
        assert isinstance(load_domain(tmp_path / "bare.npz"), UnlabelledDomain)

    def test_prefix_and_class_names(self, tmp_path: Path) -> None:
        np.savez(
            tmp_path / "office.npz", amazon_x=FEATURES, amazon_y=[1, 0, 1], web_x=FEATURES, classes=["b", "a", "c"]
        )
        domain = labelled(f"{tmp_path}/office.npz:amazon")
        assert domain.classes == ("b", "a", "c")
        assert domain.labels.tolist() == [1, 0, 1]
        assert isinstance(load_domain(f"{tmp_path}/office.npz:web"), UnlabelledDomain)
        with pytest.raises(UnknownNameError, match=r"'amazn'\. Did you mean 'amazon'"):
            load_domain(f"{tmp_path}/office.npz:amazn")

    def test_any_names(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "odd.npz", F=FEATURES, L=[0, 1, 1], C=["no", "yes"])
        spec = f"{tmp_path}/odd.npz#x=F,y=L,classes=C"
        assert labelled(spec).classes == ("no", "yes")
        assert isinstance(load_domain(f"{tmp_path}/odd.npz#x=F"), UnlabelledDomain)

    @pytest.mark.parametrize(
        ("choice", "message"),
        [
            ("y=L", "expected x=NAME after '#'"),
            ("x=F,z=L", "expected x=NAME,y=NAME after '#', got 'z=L'"),
            ("F", "got 'F'"),
            ("x=G", "unknown array of .* 'G'"),
        ],
    )
    def test_wrong_choices(self, choice: str, message: str, tmp_path: Path) -> None:
        np.savez(tmp_path / "odd.npz", F=FEATURES, L=[0, 1, 1])
        with pytest.raises(InvalidInputError, match=message):
            load_domain(f"{tmp_path}/odd.npz#{choice}")

    def test_images(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "colour.npz", images=IMAGES, labels=[0, 1, 0])
        domain = labelled(tmp_path / "colour.npz")
        assert domain.inputs.shape == (3, 4, 4)
        expected = torch.from_numpy(IMAGES).permute(0, 3, 1, 2) / 255
        torch.testing.assert_close(domain.inputs.fetch(np.arange(3)), expected)
        np.save(tmp_path / "grey.npy", IMAGES[..., 0])
        grey = load_domain(tmp_path / "grey.npy")
        assert isinstance(grey, UnlabelledDomain)
        assert grey.inputs.shape == (1, 4, 4)

    @pytest.mark.parametrize(
        "values",
        [
            np.zeros((2, 3, 8, 8), np.uint8),
            np.zeros((2, 4, 4, 3), np.float32),
            np.zeros((2, 3), np.int64),
            np.zeros(3, np.float32),
            np.zeros((0, 3), np.float32),
        ],
    )
    def test_other_forms(self, values: np.ndarray[tuple[int, ...], np.dtype[np.generic]], tmp_path: Path) -> None:
        np.savez(tmp_path / "data.npz", x=values, other=np.zeros(5))
        with pytest.raises(InvalidInputError, match=r"expected images uint8.*features float.*other float64 \(5,\)"):
            load_domain(tmp_path / "data.npz")
        np.save(tmp_path / "data.npy", values)
        with pytest.raises(InvalidInputError, match=r"expected images uint8"):
            load_domain(tmp_path / "data.npy")

    @pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
    def test_values_that_are_not_finite(self, value: float, tmp_path: Path) -> None:
        features = np.zeros((4, 3))
        features[2] = value
        np.savez(tmp_path / "data.npz", x=features)
        with pytest.raises(InvalidInputError, match="3 values in 1 rows are NaN or infinite, first in row 2"):
            load_domain(tmp_path / "data.npz")

    @pytest.mark.parametrize(
        ("labels", "classes", "message"),
        [
            ([0.5, 1.0, 2.0], None, "expected one whole number or text per row"),
            ([[0], [1], [1]], None, r"got int64 \(3, 1\)"),
            ([0, 1], None, "got 2 labels for 3 inputs"),
            ([0, 1, 2], ["a", "b"], "expected positions in the 2 classes, 0 to 1, got values from 0 to 2"),
        ],
    )
    def test_wrong_labels(
        self, labels: list[object], classes: list[str] | None, message: str, tmp_path: Path
    ) -> None:
        extra = {} if classes is None else {"classes": classes}
        save_arrays(tmp_path / "data.npz", {"x": FEATURES, "y": labels, **extra})
        with pytest.raises(InvalidInputError, match=message):
            load_domain(tmp_path / "data.npz")

    def test_unknown_names_are_listed(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "data.npz", foo=FEATURES)
        with pytest.raises(InvalidInputError, match=r"it has foo float16 \(3, 2\).*FILE\.npz#x=INPUTS"):
            load_domain(tmp_path / "data.npz")

    def test_objects_are_never_loaded(self, tmp_path: Path) -> None:
        objects = np.array([{}, None], dtype=object)
        np.savez(tmp_path / "data.npz", x=objects)
        with pytest.raises(InvalidInputError, match=r"can't read the array 'x'.*pickled objects are never loaded"):
            load_domain(tmp_path / "data.npz")
        np.savez(tmp_path / "other.npz", foo=objects)
        with pytest.raises(InvalidInputError, match=r"foo \(unreadable or Python objects\)"):
            load_domain(tmp_path / "other.npz")
        np.save(tmp_path / "data.npy", objects, allow_pickle=True)
        with pytest.raises(InvalidInputError, match=r"can't read '.*data\.npy'"):
            load_domain(tmp_path / "data.npy")

    def test_files_that_are_no_arrays(self, tmp_path: Path) -> None:
        (tmp_path / "data.npz").write_bytes(pickle.dumps([1]))
        with pytest.raises(InvalidInputError, match=r"can't read '.*' as a \.npz file"):
            load_domain(tmp_path / "data.npz")
        np.save(tmp_path / "single.npy", FEATURES)
        (tmp_path / "single.npy").rename(tmp_path / "single.npz")
        with pytest.raises(InvalidInputError, match=r"a single array; name it \.npy"):
            load_domain(tmp_path / "single.npz")


class TestNothing:
    @pytest.mark.parametrize("spec", ["", "  ", "unlabelled:"])
    def test_empty(self, spec: str) -> None:
        with pytest.raises(InvalidInputError, match=r"empty spec\. A spec is a folder"):
            load_domain(spec)

    @pytest.mark.parametrize("spec", ["photos/amazon", "./mnist", "/nowhere/mnist"])
    def test_no_such_path_or_name(self, spec: str) -> None:
        with pytest.raises(InvalidInputError, match=f"no file or folder '{spec}'.*a folder of images; an image list"):
            load_domain(spec)

    @pytest.mark.parametrize("spec", ["no.npz", "no.npz:amazon", "no.txt", "no.npy"])
    def test_no_such_file(self, spec: str) -> None:
        with pytest.raises(InvalidInputError, match=r"there is no file 'no\..*A spec is"):
            load_domain(spec)

    def test_near_miss_gets_a_suggestion_and_the_forms(self) -> None:
        with pytest.raises(UnknownNameError, match=r"'mnsit'\. Did you mean 'mnist'.*A spec is a folder"):
            load_domain("mnsit:test")

    def test_other_kinds_of_file(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.doc").touch()
        with pytest.raises(InvalidInputError, match=r"what kind of data the file '.*thesis\.doc' is. A spec is"):
            load_domain(tmp_path / "thesis.doc")


class TestPairs:
    def write(self, path: Path, values: object, labels: list[object] | None = None) -> Path:
        save_arrays(path, {"x": values} if labels is None else {"x": values, "y": labels})
        return path

    def test_images_in_memory_get_the_larger_format(self) -> None:
        source, target = load_pair("digits/mnist", "digits/uci")
        assert source.inputs.shape == target.inputs.shape == (1, 28, 28)
        assert isinstance(target.inputs, ArrayInputs)
        assert target.inputs.values.dtype == torch.uint8

    def test_equal_formats_are_not_copied(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        loaded = labelled("digits/mnist")
        monkeypatch.setattr("shiftcal.data.specs.load_domain", lambda *_, **__: loaded)
        source, _ = load_pair("digits/mnist", "digits/mnist")
        assert source.inputs is loaded.inputs

    def test_sizes_that_are_asked_for(self, tmp_path: Path) -> None:
        write_images(tmp_path / "photos", "1.png")
        for options, size in (({}, 32), ({"default_image_size": 20}, 28), ({"image_size": 9}, 9)):
            source, target = load_pair("digits/mnist", tmp_path / "photos", **options)  # type: ignore[arg-type]
            assert source.inputs.shape == target.inputs.shape == (3, size, size)
            assert target.inputs.fetch(np.array([0])).shape == (1, 3, size, size)
        with pytest.raises(InvalidInputError, match=r"at least 1 and at most 4,096 pixels\. Got 0"):
            load_pair("digits/mnist", "digits/uci", image_size=0)

    def test_features(self, tmp_path: Path) -> None:
        source, target = load_pair(
            self.write(tmp_path / "s.npz", FEATURES, [0, 1, 1]), self.write(tmp_path / "t.npz", FEATURES)
        )
        assert source.inputs.shape == target.inputs.shape == (2,)
        assert isinstance(target, UnlabelledDomain)

    def test_different_kinds_and_dimensions(self, tmp_path: Path) -> None:
        source = self.write(tmp_path / "s.npz", FEATURES, [0, 1, 1])
        with pytest.raises(InvalidInputError, match=r"features of shape \(2,\).*images of shape \(1, 28, 28\)"):
            load_pair(source, "digits/mnist")
        with pytest.raises(InvalidInputError, match=r"shape \(2,\).*shape \(5,\)"):
            load_pair(source, self.write(tmp_path / "t.npz", np.zeros((2, 5))))

    def test_source_needs_labels_of_two_classes(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInputError, match="labels missing in the source"):
            load_pair(self.write(tmp_path / "s.npz", FEATURES), "digits/uci")
        with pytest.raises(InvalidInputError, match=r"one class only \(4\)"):
            load_pair(self.write(tmp_path / "s.npz", FEATURES, [4, 4, 4]), "digits/uci")

    def test_target_with_other_classes(self, tmp_path: Path) -> None:
        source = self.write(tmp_path / "s.npz", FEATURES, [0, 1, 1])
        target = self.write(tmp_path / "t.npz", FEATURES, [0, 1, 7])
        with pytest.raises(InvalidInputError, match=r"the class sets differ.*\(7\).*'unlabelled:.*t\.npz'"):
            load_pair(source, target)
        assert isinstance(load_pair(source, f"unlabelled:{target}")[1], UnlabelledDomain)
