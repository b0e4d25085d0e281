"""Deep CORAL: correlation alignment, the outputs vary and covary on the target as on the source.

Sun, Saenko, "Deep CORAL: Correlation Alignment for Deep Domain Adaptation", ECCV workshops 2016, Eq. 1 and Eq. 6:

    loss = mean_source cross_entropy(softmax(z), y) + weight || C_source - C_target ||_F^2 / (4 d^2)

C are the covariances over a batch of the d outputs of a layer. The paper's layer is the last one, the logits, and so
it is here: the features on request are many more, of which 1 / (4 d^2) leaves little without a large weight. The
paper gives no weight but a rule for it: both terms are to be about equal at the end of training. 1 is of that order
for logits. Covariances do not see a shift of the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.core.processes import whole_batch
from shiftcal.data.batches import Batch
from shiftcal.functional.coral import coral_loss
from shiftcal.methods.base import TASK, Update
from shiftcal.methods.networks.classifiers import Classifier, classify_jointly
from shiftcal.methods.source_only import SourceOnly


@dataclass(frozen=True, kw_only=True)
class DeepCoral(SourceOnly):
    """Source cross-entropy, and equal covariances of both domains."""

    needs_target: ClassVar[bool] = True

    coral_weight: float = option(1.0, "weight of the distance between covariances", at_least=0)
    layer: Literal["logits", "features"] = option("logits", "what is aligned: logits, or features")

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        """One step of cross-entropy and alignment."""
        assert batch.target_inputs is not None
        source, target = classify_jointly(network, batch.source_inputs, batch.target_inputs)
        task_loss = cross_entropy(source.logits, batch.source_labels)
        source_values, target_values = (getattr(seen, self.layer) for seen in (source, target))
        distance = coral_loss(whole_batch(source_values), whole_batch(target_values))
        yield Update(TASK, task_loss + self.coral_weight * distance, {"task_loss": task_loss, "coral_loss": distance})
