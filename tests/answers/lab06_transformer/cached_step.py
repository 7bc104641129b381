"""Answers to cached_step."""

from functools import partial

import torch
from answers.core import draw, right, right_edits, wide, wrong_edits
from answers.lab06_transformer.shared import block_shapes, drawn, sizes
from answers.signs import EXCHANGED, FITS, NONE, TOO_MUCH

from attention_labs.lab06_transformer.cached_step import TransformerDecoder
from nbjudge import Request, edit


@wide("cached_step")
def any_pieces(g):
    for b, t, s, h, width, hidden, layers in sizes(g):
        dim, v, heads = 2 * h * width, 7, (layers, b, h, s, 2 * width)
        shapes = {"embedding.table.weight": (v, dim), "head.weight": (v, dim)}
        shapes |= {"head.bias": (v,), "norm.weight": (dim,), "norm.bias": (dim,)}
        for layer in range(layers):
            shapes |= block_shapes(dim, hidden, ["self", "cross"], f"blocks.{layer}.")
        weights, init = drawn(g, shapes), (v, dim, h, hidden, layers)
        for pieces in ([t], [1] * (t + 1), [t, 2], [1, t, 3]):
            mask = torch.rand(b, 1, s, generator=g) < 0.6
            mask[..., 0] = True
            target = torch.randint(v, (b, sum(pieces)), generator=g)
            steps = [(tokens, after) for after, tokens in enumerate(pieces)]
            inputs = (target, draw(g, *heads), draw(g, *heads), mask, steps, [])
            yield Request(inputs, init, weights, gradients=True)


change = partial(edit, TransformerDecoder.step)
MASK = "mask = causal_after(past, token)"
allow = partial(edit, TransformerDecoder.step, MASK)
embed = partial(edit, TransformerDecoder.step, "x = self.embedding(token, past)")
say = partial(edit, TransformerDecoder.step, "self.head(self.norm(x))")
COUNT = "0 if cache[0] is None else cache[0].key.size(2)"
POSITIONS = "torch.arange(past + token.size(1), device=token.device)"
SEEN = "torch.ones(token.size(1), past, dtype=torch.bool, device=token.device)"
SQUARE = "causal_mask(past + token.size(1), token.device)"
OWN_SQUARE = "causal_mask(token.size(1), token.device)"

right("cached_step", "Stack")(TransformerDecoder)
right_edits(
    "cached_step",
    mask_compared=allow(f"mask = {POSITIONS}[past:, None] >= {POSITIONS}"),
    mask_with_an_offset=allow(
        "mask = torch.ones(token.size(1), past + token.size(1), dtype=torch.bool,"
        " device=token.device).tril(past)"
    ),
    mask_in_two_parts=allow(f"mask = torch.cat([{SEEN}, {OWN_SQUARE}], dim=1)"),
    mask_with_a_batch=allow(
        f"mask = {SQUARE}[None, past:].expand(token.size(0), -1, -1)"
    ),
    embedded_by_hand=embed(
        "x = self.embedding.positions(self.embedding.weight[token]"
        " * self.embedding.weight.size(1) ** 0.5, past)"
    ),
    embedded_one_by_one=embed(
        "x = torch.cat([self.embedding(one, past + t)"
        " for t, one in enumerate(token.split(1, dim=1))], dim=1)"
    ),
    through_by_index=change(
        "block, source, layer_past in zip(self.blocks, memory.layers, cache)",
        "i in range(len(self.blocks))",
    )
    & change("= block(", "= self.blocks[i](")
    & change("x, source, mask", "x, memory.layers[i], mask")
    & change("layer_past, need", "cache[i], need")
    & change("norm(x)", "norm(x.contiguous().clone())"),
    through_with_weights=change("layer_past, need_weights", "layer_past, True"),
    through_with_wide_masks=allow(f"mask = {SQUARE}[past:].clone()")
    & change("memory.mask", "memory.mask.expand(-1, x.size(1), -1)"),
    said_by_matrices=say("self.norm(x) @ self.head.weight.T + self.head.bias"),
    said_with_einsum=say(
        "torch.einsum('btd,vd->btv', self.norm(x), self.head.weight) + self.head.bias"
    ),
)

# A single token has a mask, too.
ALWAYS = allow(f"mask = {SQUARE}[past:]")
SECOND = "wrong when tokens come in several pieces"
PUT_TOGETHER = "the decoder is put together in a wrong way"
LAST = "right only at the last token"
CACHE = "a wrong cache is returned"
TURNS = "wrong when a step continues an earlier cache"
OTHERS = "other results than logits, None, and a tuple of `KeyValue`"

wrong_edits(
    "cached_step",
    positions_from_zero=(
        embed("x = self.embedding(token)"),
        "every step begins at position 0",
        SECOND,
    ),
    positions_from_one=(embed("x = self.embedding(token, past + 1)"), PUT_TOGETHER),
    no_positions=(embed("x = self.embedding.table(token)"), PUT_TOGETHER),
    heads_counted=(ALWAYS & change("key.size(2)", "key.size(1)"), SECOND),
    batch_counted=(ALWAYS & change("key.size(2)", "key.size(0)"), SECOND, FITS),
    layers_counted=(ALWAYS & change("cache[0].key.size(2)", "len(cache)"), SECOND),
    cache_taken_for_granted=(change(COUNT, "cache[0].key.size(2)"), NONE),
    everything_allowed=(allow("mask = None"), "no causal mask", LAST),
    the_whole_square=(allow(f"mask = {SQUARE}"), FITS, SECOND),
    square_of_the_new=(
        allow("mask = causal_after(0, token)"),
        FITS,
        "a mask for the new positions only",
    ),
    each_new_token_sees_the_past_and_itself=(
        allow(
            f"mask = torch.cat([{SEEN}, torch.eye(token.size(1), dtype=torch.bool,"
            f" device=token.device)], dim=1) if past else {OWN_SQUARE}"
        ),
        SECOND,
    ),
    past_left_out=(
        ALWAYS & change("layer_past, need", "None, need"),
        "the past is ignored",
        SECOND,
        FITS,
    ),
    last_layer_handed_on=(
        change("tuple(all_seen)", "(seen,) * len(cache)"),
        CACHE,
        SECOND,
    ),
    source_unmasked=(
        change("memory.mask", "None"),
        "the source mask is missing",
        PUT_TOGETHER,
    ),
    one_source_for_all=(
        change("memory.layers, cache", "memory.layers[:1] * len(cache), cache"),
        "all blocks get the first block's source",
    ),
    every_block_reads_the_tokens=(
        change("x, weights, seen =", "states, weights, seen =")
        & change("norm(x)", "norm(states)"),
        PUT_TOGETHER,
    ),
    not_normalized=(say("self.head(x)"), "the final norm is missing", PUT_TOGETHER),
    last_token_said=(
        say("self.head(self.norm(x[:, -1:])).expand(-1, x.size(1), -1)"),
        EXCHANGED,
        LAST,
        FITS,
    ),
    without_weights=(
        change("weights, tuple(all_seen)", "tuple(all_seen)"),
        TOO_MUCH,
    ),
    everything_again=(
        change(f"past = {COUNT}", "new, past = token.size(1), 0")
        & allow(
            "token = token if cache[0] is None else"
            f" torch.cat([cache[0].key, token], dim=1)\n    {MASK}"
        )
        & change("layer_past, need", "None, need")
        & say("self.head(self.norm(x))[:, -new:]")
        & change("tuple(all_seen)", "(KeyValue(token, token),) * len(cache)"),
        "the prefix is computed again",
        CACHE,
        TOO_MUCH,
    ),
    position_kept_on_self=(
        embed(
            "past = getattr(self, 'position', 0); self.position = past + token.size(1);"
            " x = self.embedding(token, past)"
        ),
    ),
    a_list_of_what_was_seen=(
        change("tuple(all_seen)", "all_seen"),
        "the cache is not a tuple",
    ),
    first_memory_kept=(
        allow(
            "self.__dict__['memory'] = memory = self.__dict__['memory'] if past"
            f" else memory\n    {MASK}"
        ),
        TURNS,
    ),
    first_mask_kept=(
        allow(
            "self.__dict__['mask'] = padding = self.__dict__['mask'] if past"
            f" else memory.mask\n    {MASK}"
        )
        & change("memory.mask, layer", "padding, layer"),
        TURNS,
    ),
    two_blocks=(
        change("memory.layers, cache)", "memory.layers, cache[:2])"),
        TOO_MUCH,
    ),
    last_source_from_the_second_on=(
        change(
            "x, source, mask",
            "x, source if block is self.blocks[0] else memory.layers[-1], mask",
        ),
    ),
    entries_are_pairs=(
        change("cache[0].key.size", "cache[0][0].size")
        & change("layer_past, need", "layer_past and KeyValue(*layer_past), need")
        & change("tuple(all_seen)", "tuple((x.key, x.value) for x in all_seen)"),
        OTHERS,
    ),
    states_in_the_place_of_none=(
        change("weights, tuple(all_seen)", "x, tuple(all_seen)"),
        OTHERS,
    ),
    no_gradient_in_eval_mode=(
        say("self.head(self.norm(x if self.training else x.detach()))"),
    ),
)
