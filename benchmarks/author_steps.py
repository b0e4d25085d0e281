"""Training steps, losses and selections of published methods, run as their authors wrote them, on arrays.

They are imported from checkouts; what is written here gives them our data, network, optimiser, batches and rounds.
Modules that they need for pictures and logs alone are replaced by stand-ins, CUDA by the CPU.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import MagicMock, patch

import numpy as np
import torch
from benchmarks.peer_check import ADAMW, BATCH_SIZE, WIDTH, PeerNetwork, Setting, values_of
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot
from torch.nn.functional import dropout as dropped
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from shiftcal.core.vision_guard import import_torchvision
from shiftcal.data.batches import Batch, PseudoLabels
from shiftcal.functional.self_training import growing_portion, num_warmup_epochs

# Repository of the authors, and the commit that was read.
AUTHORS = {
    "adr_da": ("mil-tokyo/adr_da", "52eca89"),
    "MUDA": ("joonholee-research/MUDA", "302d32d"),
    "CRST": ("yzou2/CRST", "f7e4df0"),
    "udacu": ("phymhan/udacu", "e874648"),
    "CPGA": ("SCUT-AILab/CPGA", "dc98978"),
}
# What they import for pictures, networks and logs that are not used here.
STAND_INS = {
    "adr_da": ("model", "model.build_gen", "datasets", "datasets.dataset_read"),
    "CRST": ("util", "deeplab", "deeplab.model", "deeplab.datasets"),
    "udacu": ("resnet", "tensorboard_logger"),
    "CPGA": ("tensorboardX", "dataset", "test", "auto_augment"),
}
CPU = torch.device("cpu")
# CPGA's generator in steps of its own: after 50 the classifier is right on all that it makes.
GENERATOR_STEPS, GENERATOR_ROWS, NOISE = 100, 62, 100


def authors_module(folder: Path, name: str, file: str, words: tuple[str, ...] = (), **given: Any) -> Any:
    """A file of a checkout as a module; tabs become spaces, as Python 2 read them.

    Args:
        folder: with all checkouts.
        name: of the checkout, or of the folder in it from which the file's own imports are found.
        file: in that folder.
        words: of its command line, which some read as they are imported.
        given: names that the file takes from Python 2, or from its own start.
    """
    import_torchvision()
    path = folder / name / file
    if not path.exists():
        sys.exit(f"no {path}: --authors takes a folder with checkouts of {', '.join(r for r, _ in AUTHORS.values())}")
    for wanted in ("datasets", "models", "transforms"):
        importlib.import_module(f"torchvision.{wanted}")  # before, so that they outlive what is undone below
    module: Any = ModuleType(path.stem)
    module.__dict__.update(given)
    known = set(sys.modules)
    with ExitStack() as stack:
        stack.enter_context(patch.object(sys, "path", [str(folder / name), *sys.path]))
        stack.enter_context(patch.object(sys, "argv", [file, *words]))
        sys.modules.update({stand_in: MagicMock() for stand_in in STAND_INS.get(name, ())})
        exec(compile(path.read_text(encoding="utf-8").expandtabs(8), str(path), "exec"), module.__dict__)
    for new in set(sys.modules) - known:
        # Two of them have a module `utils`.
        if new in STAND_INS.get(name, ()) or str(folder) in str(getattr(sys.modules[new], "__file__", "")):
            del sys.modules[new]
    return module


@contextmanager
def as_the_authors_ran() -> Iterator[None]:
    """On a machine without CUDA, with a torch of today, in silence and in a folder that is thrown away."""
    with ExitStack() as stack, Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        for kind in (Tensor, nn.Module):
            stack.enter_context(patch.object(kind, "cuda", lambda thing, *_: thing))
        stack.enter_context(patch.object(Tensor, "byte", Tensor.bool))  # masks
        stack.enter_context(chdir(stack.enter_context(tempfile.TemporaryDirectory())))
        stack.enter_context(redirect_stdout(nowhere))
        stack.enter_context(redirect_stderr(nowhere))
        yield


class Drawn:
    """An iterator as those of the authors' days: with `next` as a method."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = iter(items)

    def __iter__(self) -> Drawn:
        return self

    def next(self) -> Any:
        """The next item."""
        return next(self._items)

    __next__ = next


class Loader(NamedTuple):
    """Batches as the authors' loaders give them."""

    items: Iterable[Any]
    length: int

    def __iter__(self) -> Drawn:
        return Drawn(self.items)

    def __len__(self) -> int:
        return self.length


class Dropping(nn.Linear):
    """A head with dropout before it, in training or as it is told."""

    def __init__(self, rate: float, num_classes: int) -> None:
        super().__init__(WIDTH, num_classes)
        self.rate = rate

    def forward(self, features: Tensor, dropout: bool | None = None) -> Tensor:
        """Logits (N, C)."""
        return super().forward(dropped(features, self.rate, self.training if dropout is None else dropout))


class Body(nn.Sequential):
    """The hidden layer; with batch normalisation, as the authors' networks have it, if that is asked for."""

    def __init__(self, setting: Setting, batch_norm: bool = False) -> None:
        norm = [nn.BatchNorm1d(WIDTH)] if batch_norm else []
        super().__init__(nn.Linear(setting.source.inputs.shape[0], WIDTH), *norm, nn.ReLU())

    def forward(self, inputs: Tensor, dropout: bool | None = None) -> Tensor:
        """Features (N, WIDTH), which have no dropout within."""
        del dropout
        features: Tensor = super().forward(inputs)  # type: ignore[no-untyped-call]
        return features


def adamw(part: nn.Module) -> AdamW:
    """The optimiser of all."""
    rate, decay, eps = (ADAMW[name] for name in ("lr", "weight_decay", "eps"))
    return AdamW(part.parameters(), lr=rate, weight_decay=decay, eps=eps, fused=True)


def scheduled(setting: Setting, *optimizers: AdamW) -> Callable[[Iterable[Batch]], Iterator[Batch]]:
    """What lets the step sizes fall as batches are drawn."""
    schedules = [LambdaLR(optimizer, setting.new_schedule()) for optimizer in optimizers]

    def drawn(batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            yield batch
            for schedule in schedules:
                schedule.step()

    return drawn


def run_adr(setting: Setting, folder: Path, options: Mapping[str, Any]) -> Tensor:
    """`Solver.train` of adr_da, an epoch a call."""
    # It prints by what torch no longer has, in steps 0, 100, ...: they are counted from 1, and so many there are not.
    code = authors_module(folder, "adr_da", "solver.py", xrange=range, enumerate=partial(enumerate, start=1))
    solver = code.Solver.__new__(code.Solver)
    solver.__dict__.update(batch_size=BATCH_SIZE, num_k=4, entropy=False, use_abs_diff=False, interval=1000)
    num_classes = len(setting.source.classes)
    solver.G, solver.C1, solver.C2 = Body(setting, **options), *(Dropping(0.5, num_classes) for _ in range(2))
    parts = (solver.G, solver.C1, solver.C2)
    solver.opt_g, solver.opt_c1, solver.opt_c2 = optimizers = [adamw(part) for part in parts]
    draw = scheduled(setting, *optimizers)
    for epoch in range(setting.epochs):
        batches = draw(setting.batches(epoch))
        solver.datasets = ({"S": b.source_inputs, "S_label": b.source_labels, "T": b.target_inputs} for b in batches)
        solver.train(epoch)
    solver.G.eval()
    found: Tensor = solver.C2.eval()(solver.G(values_of(setting.target)))
    return found.detach().softmax(dim=-1)


def run_muda(setting: Setting, folder: Path, options: Mapping[str, Any]) -> Tensor:
    """`muda` of MUDA, the whole loop; its dropout on Office-31 is 0.4 before the head."""
    code = authors_module(folder, "MUDA/classification", "module/muda.py")
    body = Body(setting, options.get("batch_norm", False))
    head = Dropping(0.4, len(setting.source.classes))
    batches = [batch for epoch in range(setting.epochs) for batch in setting.batches(epoch)]
    source = [(batch.source_inputs, batch.source_labels) for batch in batches]
    target = [(batch.target_inputs, torch.zeros(BATCH_SIZE)) for batch in batches]
    loaders = [Loader(items, len(items)) for items in (source, target)]
    parts = {"g": body, "h": head}
    optimizers = {f"op_{name}": adamw(part) for name, part in parts.items()}
    schedules = {f"scheduler_{name}": LambdaLR(optimizers[f"op_{name}"], setting.new_schedule()) for name in parts}
    weights = {"c_s": 1.0, "c_u": options.get("c_u", 1.0), "optLu": 1, "sam": 10, "criterion": cross_entropy}
    budget = {"n_iter": len(batches), "n_batch": BATCH_SIZE, "test_period": len(batches), "iLR": ADAMW["lr"]}
    settings = {**optimizers, **schedules, **weights, **budget, "alpha": 0.5, "save": False, "fix": False}
    code.muda(CPU, body, head, loaders, [source[:1], source[:1]], "", settings)
    found: Tensor = head.eval()(body.eval()(values_of(setting.target)))
    return found.detach().softmax(dim=-1)


def run_self_training(setting: Setting, folder: Path, options: Mapping[str, Any]) -> Tensor:
    """Thresholds, selection and losses of CRST (of CBST without regularisers), in rounds as ours."""
    words = ["--num-classes", str(len(setting.source.classes))]
    for name in ("mr_weight_kld", "lr_weight_ent"):
        words += [f"--{name.replace('_', '-')}", str(options.get(name, 0.0))]
    code = authors_module(folder, "CRST", "crst_seg.py", tuple(words))
    code.float = int  # a loss repeats a tensor `float` times, which torch no longer does
    network = PeerNetwork(setting.source.inputs.shape[0], len(setting.source.classes))
    optimizer = adamw(network)
    draw = scheduled(setting, optimizer)
    target, pixels = values_of(setting.target), (slice(None), ..., None, None)
    loss_of = code.reg_loss_calc_expand if code.args.lr_weight_ent else code.reg_loss_calc
    for epoch in range(setting.epochs):
        portion = portion_of(setting, epoch, 0.2, 0.5, options.get("warmup_share", 0.1))
        with torch.no_grad():
            pseudo = None if portion is None else selected_by_crst(code, network(target).softmax(dim=-1), portion)
        for batch in draw(setting.batches(epoch, pseudo)):
            labels = batch.source_labels if batch.soft_labels is None else batch.soft_labels
            if code.args.lr_weight_ent and batch.soft_labels is None:
                labels = one_hot(labels, len(setting.source.classes)).float()
            # Their data sets give the weight to each row of the target, and the loss has it once more.
            weights = batch.is_pseudo * code.args.mr_weight_kld
            loss = loss_of(network(batch.source_inputs)[pixels], labels[pixels], weights, code.args)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        found: Tensor = network(target).softmax(dim=-1)
    return found


def portion_of(setting: Setting, epoch: int, first: float, last: float, warmup: float = 0.1) -> float | None:
    """The portion of each class to select before an epoch, as of our methods."""
    return growing_portion(epoch, setting.epochs, warmup_share=warmup, first_portion=first, last_portion=last)


def selected_by_crst(code: Any, probabilities: Tensor, portion: float) -> PseudoLabels:
    """The rows of the target as the pixels of one picture, a line high: what `label_selection` makes of it."""
    confidence, predicted = probabilities.max(dim=-1)
    num_classes = probabilities.shape[1]
    by_class = {label: confidence[predicted == label].tolist() for label in range(num_classes)}
    counts, logger = np.bincount(predicted, minlength=num_classes), logging.getLogger("of CRST")
    thresholds = code.kc_parameters(by_class, counts, portion, 0, ".", code.args, logger)
    np.save("target.npy", probabilities[None].numpy())
    code.Image.fromarray(predicted[None].numpy().astype(np.uint8)).save("target.png")
    Path("labels").mkdir(exist_ok=True)
    # Its number 0 is that of pixels without a label.
    numbers = np.arange(1, num_classes + 1)
    folders = (".", ".", "labels", ".", ".")
    code.label_selection(thresholds, 1, ["target.png"], numbers, 0, *folders, code.args, logger)
    labels = np.asarray(code.Image.open("labels/target.png"))[0].astype(np.int64) - 1
    rows = np.flatnonzero(labels >= 0)
    soft = np.load("labels/target.npy")[0][rows] if code.args.lr_weight_ent else None
    return PseudoLabels(rows, labels[rows], soft)


class TwoHeads(nn.Module):
    """Logits and logarithms of their variances, with dropout in the body."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.body = nn.Sequential(Body(setting), nn.Dropout(0.2))
        self.mean, self.log_variance = (nn.Linear(WIDTH, len(setting.source.classes)) for _ in range(2))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Both (N, C)."""
        features = self.body(inputs)
        return self.mean(features), self.log_variance(features)


def run_brer(setting: Setting, folder: Path, options: Mapping[str, Any]) -> Tensor:
    """`train_bayes`, selection per class and prediction of udacu, in rounds as ours."""
    del options
    code = authors_module(folder, "udacu", "my_crst.py")
    num_classes = len(setting.source.classes)
    words = ["--bayesian", "--kc-policy", "cb", "--num-class", str(num_classes), "--tgt-train-list", "labels.txt"]
    code.args = code.parser.parse_args(words)
    code.args.expr_dir = "."
    code.reparameterize = code.utils.reparameterize
    code.eval_subbatch_variance_bayes = lambda *_: 0.0  # for its log alone
    network, logger = TwoHeads(setting), logging.getLogger("of udacu")
    optimizer = adamw(network)
    draw, target = scheduled(setting, optimizer), values_of(setting.target)
    names, zeros = [str(row) for row in range(len(target))], torch.zeros(len(target))
    unlabelled = [(target, torch.zeros(len(target), num_classes), names, zeros, zeros)]

    def predicted() -> list[Tensor]:
        found: list[Tensor] = code.validate_bayes_mem(unlabelled, network, 0, CPU, logger)[2]
        return found

    def as_theirs(batch: Batch) -> tuple[Any, ...]:
        domain = batch.is_pseudo.long()
        return batch.source_inputs, one_hot(batch.source_labels, num_classes).float(), None, domain * 0.0, domain

    for epoch in range(setting.epochs):
        portion, pseudo = portion_of(setting, epoch, 0.3, 0.6), None
        if portion is not None:
            said = predicted()
            thresholds = code.kc_parameters(portion, "cb", said, num_classes, CPU, code.args)
            labels = code.soft_pseudo_label(said, thresholds, code.args)
            code.label_selection(said, labels, thresholds, names, code.args, epoch)
            chosen = np.loadtxt("labels.txt")[:, 1:]
            rows = np.flatnonzero(chosen.sum(axis=1))
            pseudo = PseudoLabels(rows, chosen[rows].argmax(axis=1))
        batches = Loader(map(as_theirs, draw(setting.batches(epoch, pseudo))), setting.epoch_steps)
        code.train_bayes(batches, network, optimizer, MagicMock(), epoch, CPU, logger, "mix-")
    return torch.stack(predicted())


class WithFeatures(nn.Module):
    """Logits and features, as CPGA's networks give."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.body, self.fc = Body(setting), nn.Linear(WIDTH, len(setting.source.classes))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """(N, C) and (N, WIDTH)."""
        features = self.body(inputs)
        return self.fc(features), features


def run_cpga(setting: Setting, folder: Path, options: Mapping[str, Any]) -> Tensor:
    """The steps of CPGA's `Trainer`, after a source training of as many epochs as our warm-up has."""
    del options
    num_classes, num_rows = len(setting.source.classes), len(setting.target)
    code = authors_module(folder, "CPGA", "train_visda.py")
    code.log = lambda: logging.getLogger("of CPGA")
    trainer = code.Trainer(SimpleNamespace(lr=ADAMW["lr"], num_class=num_classes))
    trainer.infonce, trainer.gen_c = code.infoNCE(class_num=num_classes), code.infoNCE_g(class_num=num_classes)
    trainer.lemniscate = code.LinearAverage(WIDTH, num_rows, 0.05, 0.0)
    trainer.elr_loss = code.elr_loss(num_examp=num_rows, num_classes=num_classes)
    # Their networks are for 2,048 features: layers of that width are made anew for ours.
    generator = code.generator_fea_deconv(input_size=128, class_num=num_classes)
    generator.deconv[3], generator.deconv[4] = nn.ConvTranspose2d(256, WIDTH, 3, 1, 2), nn.BatchNorm2d(WIDTH)
    contrast, discriminator = code.contrastor(), code.Discriminator_fea()
    layers = contrast.shared_encoder_pred_domain
    layers[0], layers[2] = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 256)
    discriminator.shared_encoder_pred_domain[0] = nn.Linear(WIDTH, 1024)

    network = WithFeatures(setting)
    warm, epochs = num_warmup_epochs(setting.epochs, 0.3), setting.epochs
    rates = ((network.body, 1), (discriminator, 3), (contrast, 5))
    optimizer = adamw(network.fc)
    for part, rate in rates:
        optimizer.add_param_group({"params": part.parameters(), "lr": rate * ADAMW["lr"]})
    draw, target = scheduled(setting, optimizer), values_of(setting.target)
    for epoch in range(warm):
        for batch in draw(setting.batches(epoch)):
            optimizer.zero_grad()
            loss = cross_entropy(network(batch.source_inputs)[0], batch.source_labels)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    network.fc.requires_grad_(False)
    generator_optimizer = adamw(generator)
    for step in range(GENERATOR_STEPS):
        trainer.train_prototype_generator(
            step, GENERATOR_ROWS, num_classes, generator_optimizer, generator, network.fc, cross_entropy
        )
    generator.eval()
    labels = torch.arange(num_classes).repeat(2)
    trainer.generator_epoch, trainer.warm_epoch = warm, round(10 / 400 * (epochs - warm))
    rows = torch.arange(num_rows)
    for epoch in range(warm, epochs):
        done = (epoch - warm) / (epochs - warm)
        trainer.alpha, trainer.p = 0.9 - 0.2 * done, 2 / (1 + np.exp(-10 * done)) - 1
        with torch.no_grad():
            prototypes = generator(torch.rand(len(labels), NOISE), labels)
        whole = Loader([(target, torch.zeros(num_rows), rows)], 1)
        chosen, _, _, confidence = trainer.obtain_pseudo_label_and_confidence_weight(whole, network)
        for batch in draw(setting.batches(epoch)):
            assert batch.target_rows is not None
            trainer.adaptation_step(
                *(batch.target_inputs, chosen, prototypes, labels.tolist(), batch.target_rows.numpy(), network),
                *(discriminator, contrast, optimizer, epoch, confidence.float()),
            )
    with torch.no_grad():
        found: Tensor = network.eval()(target)[0].softmax(dim=-1)
    return found


BY_AUTHORS: dict[str, Callable[[Setting, Path, Mapping[str, Any]], Tensor]] = {
    "adr_da": run_adr,
    "MUDA": run_muda,
    "CRST": run_self_training,
    "udacu": run_brer,
    "CPGA": run_cpga,
}
