"""What answers of this lab share: sizes and parameters, and blocks, each part of them
in many ways."""

import math

import torch
import torch.nn.functional as F
from answers.core import draw
from torch import nn

from attention_course.attention import KeyValue, masked_softmax

NORM = "the norm at another place"
JOINED = "the sub-layers are joined in another way"


def sizes(g):
    for b, t, s in ((1, 1, 1), (1, 4, 2), (3, 1, 5), (2, 6, 3), (3, 2, 4)):
        yield b, t, s, *torch.randint(1, 5, (4,), generator=g).tolist()


def attention_weights(g, name, dim):
    weights = {
        f"{name}.{part}_proj.weight": draw(g, dim, dim)
        for part in ("query", "key", "value", "output")
    }
    return weights | {
        f"{name}.{part}_proj.bias": draw(g, dim)
        for part in ("query", "key", "value", "output")
    }


def norm_weights(g, *names, dim):
    return {
        f"{name}.{part}": draw(g, dim) for name in names for part in ("weight", "bias")
    }


def block_weights(g, dim, hidden, attentions, prefix=""):
    weights = {
        "feed_forward.inner.weight": draw(g, hidden, dim),
        "feed_forward.inner.bias": draw(g, hidden),
        "feed_forward.outer.weight": draw(g, dim, hidden),
        "feed_forward.outer.bias": draw(g, dim),
    }
    for name in attentions:
        weights |= attention_weights(g, f"{name}_attention", dim) | norm_weights(
            g, f"around_{name}.norm", dim=dim
        )
    weights |= norm_weights(g, "around_feed_forward.norm", dim=dim)
    return {prefix + name: weight for name, weight in weights.items()}


def masks_of(g, b, t, s):
    yield None
    for shape in ((t, s), (b, t, s), (b, 1, s)):
        mask = torch.rand(*shape, generator=g) < 0.6
        mask[..., 0] = True
        yield mask


class Block(nn.Module):
    # A student writes these lines one below the other; here they are apart, so that
    # each can be written otherwise.
    def enter(self, around, x):
        return around.before(x)

    def leave(self, around, x, added):
        return around.after(x, added)

    def remember(self, attention, query):
        return attention.remember(query, query)

    def look(self, attention, query, seen, mask):
        return attention.ask(query, seen, mask, need_weights=False)[0]

    def think(self, x):
        query = self.enter(self.around_feed_forward, x)
        return self.leave(self.around_feed_forward, x, self.feed_forward(query))


def normalised(norm, x):
    centred = x - x.mean(-1, keepdim=True)
    return (
        centred
        / torch.sqrt((centred**2).mean(-1, keepdim=True) + norm.eps)
        * norm.weight
        + norm.bias
    )


def enter_by_hand(self, around, x):
    return normalised(around.norm, x) if around.pre_norm else x


def leave_by_hand(self, around, x, added):
    x = torch.stack([x, around.dropout(added)]).sum(0)
    return x if around.pre_norm else around.norm(x)


def leave_with_two_cases(self, around, x, added):
    if around.pre_norm:
        return x.clone() + around.dropout(added)
    return around.norm(x + around.dropout(added))


def remember_by_hand(self, attention, query):
    key, value = attention.key_proj(query), attention.value_proj(query)
    b, t, d = query.shape
    shape = (b, t, attention.num_heads, d // attention.num_heads)
    return KeyValue(
        key.view(shape).permute(0, 2, 1, 3), value.view(shape).permute(0, 2, 1, 3)
    )


def remember_in_chunks(self, attention, query):
    parts = (
        p(query).chunk(attention.num_heads, dim=-1)
        for p in (attention.key_proj, attention.value_proj)
    )
    return KeyValue(*(torch.stack(part, dim=1) for part in parts))


def look_with_weights(self, attention, query, seen, mask):
    context, _ = attention.ask(query, seen, mask)
    return context


def look_with_einsum(self, attention, query, seen, mask):
    q = attention.query_proj(query).unflatten(-1, (attention.num_heads, -1))
    scores = torch.einsum("bthd,bhsd->bhts", q, seen.key) / math.sqrt(q.size(-1))
    if mask is not None and mask.dim() == 3:
        mask = mask[:, None]
    context = torch.einsum("bhts,bhsd->bthd", masked_softmax(scores, mask), seen.value)
    return attention.output_proj(context.flatten(2))


def look_head_by_head(self, attention, query, seen, mask):
    contexts = []
    for q, k, v in zip(
        attention.query_proj(query).chunk(attention.num_heads, -1),
        seen.key.unbind(1),
        seen.value.unbind(1),
    ):
        weights = masked_softmax(q @ k.mT / k.size(-1) ** 0.5, mask)
        contexts.append(weights @ v)
    return attention.output_proj(torch.cat(contexts, dim=-1))


def thinking(network):
    def think(self, x):
        around, layers = self.around_feed_forward, self.feed_forward
        return around.after(x, network(around.before(x), layers.inner, layers.outer))

    think.__name__ = network.__name__
    return think


@thinking
def think_with_clamp(x, inner, outer):
    return outer(inner(x).clamp(min=0))


@thinking
def think_with_where(x, inner, outer):
    hidden = inner(x)
    return outer(torch.where(hidden > 0, hidden, 0.0))


@thinking
def think_by_matrices(x, inner, outer):
    hidden = F.relu(x @ inner.weight.T + inner.bias)
    return hidden @ outer.weight.T + outer.bias


@thinking
def think_by_position(x, inner, outer):
    return torch.stack(
        [outer(F.relu(inner(position))) for position in x.unbind(1)], dim=1
    )


PARTS = {
    "enter": (enter_by_hand,),
    "leave": (leave_by_hand, leave_with_two_cases),
    "remember": (remember_by_hand, remember_in_chunks),
    "look": (look_with_weights, look_with_einsum, look_head_by_head),
    "think": (think_with_clamp, think_with_where, think_by_matrices, think_by_position),
}
