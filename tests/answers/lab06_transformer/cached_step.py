"""Answers to cached_step."""

import math

import torch
from answers.core import draw, right, wide, with_part, wrong
from answers.lab06_transformer.shared import (
    block_weights,
    norm_weights,
    normalised,
    sizes,
)
from answers.signs import FITS, NONE, TOO_MUCH
from torch import nn

from attention_course.attention import KeyValue
from attention_course.masks import causal_mask
from attention_course.models import decoder_block
from attention_course.transformer import TokenEmbedding
from nbjudge.question import Request


@wide("cached_step")
def any_pieces(g):
    for b, t, s, h, width, hidden, layers in sizes(g):
        dim, v = 2 * h * width, 7
        weights = {
            "embedding.table.weight": draw(g, v, dim),
            "head.weight": draw(g, v, dim),
            "head.bias": draw(g, v),
        }
        weights |= norm_weights(g, "norm", dim=dim)
        for layer in range(layers):
            weights |= block_weights(
                g, dim, hidden, ["self", "cross"], f"blocks.{layer}."
            )
        for pieces in ((t,), (1,) * (t + 1), (t, 2), (1, t, 3)):
            memory = (
                draw(g, layers, b, h, s, 2 * width),
                draw(g, layers, b, h, s, 2 * width),
            )
            mask = torch.rand(b, 1, s, generator=g) < 0.6
            mask[..., 0] = True
            inputs = (
                torch.randint(v, (b, sum(pieces)), generator=g),
                *memory,
                mask,
                torch.empty(pieces),
            )
            yield Request(inputs, (v, dim, h, hidden, layers), weights, gradients=True)


class Stack(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(
            decoder_block(dim, num_heads, hidden_dim) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab_size)

    def start(self, memory):
        return (None,) * len(self.blocks)

    def step(self, token, memory, cache):
        past = self.count(cache)
        x, seen = self.through(
            self.embed(token, past), memory, self.allow(past, token), cache
        )
        return self.say(x), None, seen

    def count(self, cache):
        return 0 if cache[0] is None else cache[0].key.size(2)

    def embed(self, token, past):
        return self.embedding(token, past)

    def allow(self, past, token):
        return causal_mask(past + token.size(1), token.device)[past:]

    def through(self, x, memory, mask, cache):
        seen = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, past)
            seen.append(new)
        return x, tuple(seen)

    def say(self, x):
        return self.head(self.norm(x))


right("cached_step")(Stack)


def right_stack(part):
    return lambda function: right("cached_step")(with_part(Stack, part)(function))


@right_stack("allow")
def mask_compared(self, past, token):
    t = torch.arange(past + token.size(1), device=token.device)
    return t[past:, None] >= t


@right_stack("allow")
def mask_with_an_offset(self, past, token):
    size = token.size(1)
    return torch.ones(size, past + size, dtype=torch.bool, device=token.device).tril(
        past
    )


@right_stack("allow")
def mask_in_two_parts(self, past, token):
    size = token.size(1)
    before = torch.ones(size, past, dtype=torch.bool, device=token.device)
    return torch.cat([before, causal_mask(size, token.device)], dim=1)


@right_stack("allow")
def mask_with_a_batch(self, past, token):
    return causal_mask(past + token.size(1), token.device)[None, past:].expand(
        token.size(0), -1, -1
    )


@right_stack("embed")
def embedded_by_hand(self, token, past):
    embedded = self.embedding.weight[token] * math.sqrt(self.embedding.weight.size(1))
    return self.embedding.positions(embedded, past)


@right_stack("embed")
def embedded_one_by_one(self, token, past):
    return torch.cat(
        [self.embedding(one, past + t) for t, one in enumerate(token.split(1, dim=1))],
        dim=1,
    )


@right_stack("through")
def through_by_index(self, x, memory, mask, cache):
    seen = [None] * len(self.blocks)
    for i in range(len(self.blocks)):
        x, _, seen[i] = self.blocks[i](
            x, memory.layers[i], mask=mask, source_mask=memory.mask, past=cache[i]
        )
    return x.contiguous().clone(), seen


@right_stack("through")
def through_with_weights(self, x, memory, mask, cache):
    seen = ()
    for block, source, past in zip(self.blocks, memory.layers, cache):
        x, _, new = block(x, source, mask, memory.mask, past, need_weights=True)
        seen = (*seen, new)
    return x, seen


@right_stack("through")
def through_with_wide_masks(self, x, memory, mask, cache):
    source_mask, seen = memory.mask.expand(-1, x.size(1), -1), []
    for block, source, past in zip(self.blocks, memory.layers, cache):
        x, _, new = block(x, source, mask.clone(), source_mask, past)
        seen += [new]
    return x, tuple(seen)


@right_stack("say")
def said_by_matrices(self, x):
    return normalised(self.norm, x) @ self.head.weight.T + self.head.bias


@right_stack("say")
def said_with_einsum(self, x):
    return torch.einsum("btd,vd->btv", self.norm(x), self.head.weight) + self.head.bias


def wrong_stack(part, *names):
    return lambda function: wrong("cached_step", *names)(
        with_part(Stack, part)(function)
    )


SECOND = "wrong from the second piece on"
PUT_TOGETHER = "the stack is put together in another way"


@wrong_stack("embed", "every step stands at position 0", SECOND)
def positions_from_zero(self, token, past):
    return self.embedding(token)


@wrong_stack("embed", PUT_TOGETHER)
def positions_from_one(self, token, past):
    return self.embedding(token, past + 1)


@wrong_stack("embed", PUT_TOGETHER)
def no_positions(self, token, past):
    return self.embedding.table(token)


@wrong_stack("count", SECOND)
def heads_counted(self, cache):
    return 0 if cache[0] is None else cache[0].key.size(1)


@wrong_stack("count", SECOND, FITS)
def batch_counted(self, cache):
    return 0 if cache[0] is None else len(cache[0].key)


@wrong_stack("count", SECOND)
def layers_counted(self, cache):
    return 0 if cache[0] is None else len(cache)


@wrong_stack("count", NONE)
def cache_taken_for_granted(self, cache):
    return cache[0].key.size(2)


@wrong_stack("allow", "no causal mask", "right at the last token alone")
def everything_allowed(self, past, token):
    return None


@wrong_stack("allow", FITS, SECOND)
def the_whole_square(self, past, token):
    return causal_mask(past + token.size(1), token.device)


@wrong_stack("allow", FITS, "a mask for the new positions alone")
def square_of_the_new(self, past, token):
    return None if token.size(1) == 1 else causal_mask(token.size(1), token.device)


@wrong_stack("allow", SECOND)
def each_new_token_sees_the_past_and_itself(self, past, token):
    size = token.size(1)
    if not past:
        return causal_mask(size, token.device)
    before = torch.ones(size, past, dtype=torch.bool, device=token.device)
    return torch.cat(
        [before, torch.eye(size, dtype=torch.bool, device=token.device)], dim=1
    )


@wrong_stack("through", "the past is ignored", SECOND, FITS)
def past_left_out(self, x, memory, mask, cache):
    seen = []
    for block, source in zip(self.blocks, memory.layers):
        x, _, new = block(x, source, mask, memory.mask)
        seen.append(new)
    return x, tuple(seen)


@wrong_stack("through", "something else is in the cache", SECOND)
def last_layer_handed_on(self, x, memory, mask, cache):
    for block, source, past in zip(self.blocks, memory.layers, cache):
        x, _, new = block(x, source, mask, memory.mask, past)
    return x, (new,) * len(self.blocks)


@wrong_stack("through", "the source's mask left out", PUT_TOGETHER)
def source_unmasked(self, x, memory, mask, cache):
    return Stack.through(self, x, memory._replace(mask=None), mask, cache)


@wrong_stack("through", PUT_TOGETHER)
def one_source_for_all(self, x, memory, mask, cache):
    return Stack.through(
        self,
        x,
        memory._replace(layers=memory.layers[:1] * len(self.blocks)),
        mask,
        cache,
    )


@wrong_stack("through", PUT_TOGETHER)
def every_block_reads_the_tokens(self, x, memory, mask, cache):
    seen = []
    for block, source, past in zip(self.blocks, memory.layers, cache):
        states, _, new = block(x, source, mask, memory.mask, past)
        seen.append(new)
    return states, tuple(seen)


@wrong_stack("say", "the last norm left out", PUT_TOGETHER)
def not_normalised(self, x):
    return self.head(x)


@wrong_stack("say", "axes exchanged", "right at the last token alone", FITS)
def last_token_said(self, x):
    return self.head(self.norm(x[:, -1:])).expand(-1, x.size(1), -1)


@wrong_stack("step", TOO_MUCH)
def without_weights(self, token, memory, cache):
    logits, _, cache = Stack.step(self, token, memory, cache)
    return logits, cache


@wrong_stack(
    "step",
    "the beginning is computed again",
    "something else is in the cache",
    TOO_MUCH,
)
def everything_again(self, token, memory, cache):
    tokens = token if cache[0] is None else torch.cat([cache[0].key, token], dim=1)
    logits, _, _ = Stack.step(self, tokens, memory, self.start(memory))
    return (
        logits[:, -token.size(1) :],
        None,
        (KeyValue(tokens, tokens),) * len(self.blocks),
    )


@wrong_stack("embed", "another answer to the same question")
def position_kept_on_self(self, token, past):
    begin = getattr(self, "position", 0)
    self.position = begin + token.size(1)
    return self.embedding(token, begin)
