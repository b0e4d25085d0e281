"""A vision transformer of timm in two modes: attention of images to themselves, and to those of another domain.

Xu et al., "CDTrans: Cross-domain Transformer for Unsupervised Domain Adaptation", ICLR 2022. With the tokens s and t
that enter a block for an image of each domain, and the same weights in all branches:

    own branch     t <- t + attention(q(t), k(t), v(t)),   then t <- t + mlp(t)
    cross branch   c <- c + attention(q(s), k(t), v(t)),   then c <- c + mlp(c),   with c = t before the first block

as in the authors' code: the tokens of the cross branch are carried along, and its attention is between the tokens of
the two other branches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.vision_guard import import_timm
from shiftcal.methods.networks.backbones import Backbone


class Branch(NamedTuple):
    """What a transformer makes of a batch of images."""

    features: Tensor
    """(N, F), those that the backbone itself gives."""
    block_inputs: Tensor
    """(blocks, N, tokens, width): what enters each block."""

    def rows(self, chosen: Tensor) -> Branch:
        """The same of some of the images."""
        return Branch(self.features[chosen], self.block_inputs[:, chosen])


def check_transformer(backbone: Backbone) -> None:
    """Raise `InvalidInputError` unless the backbone is a vision transformer of timm with ordinary blocks."""
    body: Any = backbone.body
    if not (
        isinstance(body, import_timm().models.vision_transformer.VisionTransformer)
        and all(_is_ordinary(block) for block in body.blocks)
    ):
        raise InvalidInputError(
            "cross-attention needs images and a vision transformer of timm with ordinary blocks as backbone, such as "
            "'vit_tiny_patch16_224', 'deit_tiny_patch16_224' or 'vit_base_patch16_224:pretrained'; "
            f"got {type(body).__name__}"
        )


def _is_ordinary(block: Any) -> bool:
    """Whether `cross_branch` does what a block does: children of it or of its attention compute something else."""
    timm = import_timm()
    if type(block) is not timm.models.vision_transformer.Block or type(block.attn) is not timm.layers.Attention:
        return False
    # Parts that only some versions of timm have, and that are off in the usual models.
    gate, norm = (getattr(block.attn, name, None) for name in ("gate", "norm"))
    return gate is None and isinstance(norm, nn.Identity | None)


def own_branch(backbone: Backbone, inputs: Tensor) -> Branch:
    """Each image by itself, as the backbone does it."""
    body: Any = backbone.body
    embedded = body._pos_embed(body.patch_embed((inputs - backbone.mean) / backbone.deviation))
    tokens = body.norm_pre(body.patch_drop(embedded))
    block_inputs = []
    for block in body.blocks:
        block_inputs.append(tokens)
        tokens = block(tokens)
    return Branch(_pooled(body, tokens), torch.stack(block_inputs))


def cross_branch(backbone: Backbone, source: Branch, target: Branch) -> Tensor:
    """Features (N, F) of pairs of images, row by row: what the source image looks for in the target image."""
    body: Any = backbone.body
    tokens = target.block_inputs[0]
    for block, asking, asked in zip(body.blocks, source.block_inputs, target.block_inputs, strict=True):
        found = _cross_attention(block.attn, block.norm1(asking), block.norm1(asked))
        tokens = tokens + block.drop_path1(block.ls1(found))
        tokens = tokens + block.drop_path2(block.ls2(block.mlp(block.norm2(tokens))))
    return _pooled(body, tokens)


def _cross_attention(attention: Any, asking: Tensor, asked: Tensor) -> Tensor:
    """Attention of timm with queries from one sequence, keys and values from another: (N, tokens, width)."""

    def heads(tokens: Tensor) -> tuple[Tensor, ...]:
        split = attention.qkv(tokens).unflatten(-1, (3, attention.num_heads, -1))
        return split.permute(2, 0, 3, 1, 4).unbind(0)  # type: ignore[no-any-return]

    queries, (_, keys, values) = heads(asking)[0], heads(asked)
    found = scaled_dot_product_attention(
        attention.q_norm(queries),
        attention.k_norm(keys),
        values,
        dropout_p=attention.attn_drop.p if attention.training else 0.0,
    )
    return attention.proj_drop(attention.proj(found.transpose(1, 2).flatten(2)))  # type: ignore[no-any-return]


def _pooled(body: Any, tokens: Tensor) -> Tensor:
    features: Tensor = body.forward_head(body.norm(tokens))
    return features.flatten(1)
