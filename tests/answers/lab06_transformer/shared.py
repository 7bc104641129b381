"""What answers of this lab share: sizes, parameters, and parts written otherwise."""

from functools import partial

import torch
from answers.core import draw

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from attention_course.transformer.blocks import look_around
from nbjudge import edit

NORM = "the norm in the wrong place"
JOINED = "the sub-layers are put together in a wrong way"


def sizes(g):
    for b, t, s in ((1, 1, 1), (1, 4, 2), (3, 1, 5), (2, 6, 3), (3, 2, 4)):
        yield b, t, s, *torch.randint(1, 5, (4,), generator=g).tolist()


def drawn(g, shapes):
    """Draw a tensor for each name."""
    return {name: draw(g, *shape) for name, shape in shapes.items()}


def block_shapes(dim, hidden, attentions, prefix=""):
    maps = {"feed_forward.inner": (hidden, dim), "feed_forward.outer": (dim, hidden)}
    for name in attentions:
        for part in ("query", "key", "value", "output"):
            maps[f"{name}_attention.{part}_proj"] = (dim, dim)
    norms = [f"around_{name}.norm" for name in (*attentions, "feed_forward")]
    shapes = {f"{name}.weight": shape for name, shape in maps.items()}
    shapes |= {f"{name}.bias": (rows,) for name, (rows, _) in maps.items()}
    shapes |= {
        f"{name}.{part}": (dim,) for name in norms for part in ("weight", "bias")
    }
    return {prefix + name: shape for name, shape in shapes.items()}


def masks_of(g, b, t, s):
    yield None
    for shape in ((t, s), (b, t, s), (b, 1, s)):
        mask = torch.rand(*shape, generator=g) < 0.6
        mask[..., 0] = True
        yield mask


KEY, VALUE = (f"self._split(self.{x}_proj({x})).contiguous()" for x in ("key", "value"))
KERNEL = "F.scaled_dot_product_attention(q, k, v, mask, share)"
THOUGHT = "self.outer(self.inner(x).relu())"
remember = partial(edit, MultiHeadAttention.remember)
think = partial(edit, FeedForward.forward, THOUGHT)

# Edits of what blocks are made of: they are right in every block.
PARTS = {
    "enter_by_hand": edit(
        Residual.before,
        "self.norm(x) if",
        "(x - x.mean(-1, keepdim=True)) * self.norm.weight"
        " / (x.var(-1, correction=0, keepdim=True) + self.norm.eps).sqrt()"
        " + self.norm.bias if",
    ),
    "leave_by_hand": edit(Residual.after, "x + self", "x - -self"),
    "leave_with_two_cases": edit(Residual.after, "x + self", "x.clone() + self"),
    "remember_by_hand": remember(
        KEY, "self.key_proj(key).unflatten(2, (self.num_heads, -1)).permute(0, 2, 1, 3)"
    )
    & remember(
        VALUE,
        "self.value_proj(value).unflatten(2, (self.num_heads, -1)).permute(0, 2, 1, 3)",
    ),
    "remember_in_chunks": remember(
        KEY, "torch.stack(self.key_proj(key).chunk(self.num_heads, -1), dim=1)"
    )
    & remember(
        VALUE, "torch.stack(self.value_proj(value).chunk(self.num_heads, -1), dim=1)"
    ),
    "look_with_weights": edit(look_around, "need_weights=False", "need_weights=True"),
    "look_with_einsum": edit(
        MultiHeadAttention.ask,
        KERNEL,
        "torch.einsum('bhts,bhsd->bhtd', masked_softmax(torch.einsum("
        "'bhtd,bhsd->bhts', q, k) / q.size(-1) ** 0.5, mask), v)",
    ),
    "look_head_by_head": edit(
        MultiHeadAttention.ask,
        KERNEL,
        "torch.cat([masked_softmax(a @ b.mT / a.size(-1) ** 0.5, mask) @ c"
        " for a, b, c in zip(q.split(1, 1), k.split(1, 1), v.split(1, 1))], dim=1)",
    ),
    "think_with_clamp": think("self.outer(self.inner(x).clamp(min=0))"),
    "think_with_where": think(
        "self.outer(self.inner(x).where(self.inner(x) > 0, 0.0))"
    ),
    "think_by_matrices": think(
        "nn.functional.relu(x @ self.inner.weight.T + self.inner.bias)"
        " @ self.outer.weight.T + self.outer.bias"
    ),
    "think_by_position": think(
        "nn.utils.rnn.pad_sequence("
        "[self.outer(self.inner(one).relu()) for one in x.unbind(1)], batch_first=True)"
        ".transpose(0, 1)"
    ),
}
