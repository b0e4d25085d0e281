"""Data: inputs, domains with and without labels, paired batches, views, and the catalog of known sets."""

from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs, DatasetInputs, FileInputs, ImageFormat, Inputs

__all__ = [
    "ArrayInputs",
    "DatasetInputs",
    "FileInputs",
    "ImageFormat",
    "Inputs",
    "LabelledDomain",
    "ShiftProblem",
    "UnlabelledDomain",
]
