import torch
from attention_course.attention import MultiHeadAttention
from attention_course.masks import causal_mask
from attention_course.transformer import (
    FeedForward,
    Residual,
    TokenEmbedding,
    TransformerMemory,
)
from blind import bugs
from torch import nn


class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        y = self.around_self.before(x)
        now = self.self_attention.remember(y, y)
        seen = now if past is None else past.extend(now)
        x = self.around_self.after(x, self.self_attention.ask(y, seen, mask)[0])
        y = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(y, source, source_mask)
        x = self.around_cross.after(x, context)
        y = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(y)), weights, seen


def make(bug):
    class TransformerDecoder(nn.Module):
        def __init__(
            self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions
        ):
            super().__init__()
            self.embedding = TokenEmbedding(vocab_size, dim, positions)
            self.blocks = nn.ModuleList(
                DecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)
            )
            self.norm = nn.LayerNorm(dim)
            self.head = nn.Linear(dim, vocab_size)

        def remember(self, encoded):
            layers = [
                block.cross_attention.remember(encoded.states, encoded.states)
                for block in self.blocks
            ]
            return TransformerMemory(tuple(layers), encoded.mask)

        def start(self, memory):
            if bug == "counts steps on self":
                self.count = 0
            return (None,) * len(self.blocks)

        def decode(self, target, memory):
            logits, weights, _ = self.step(target, memory, self.start(memory))
            return logits, weights

        def step(self, token, memory, cache):
            T = token.size(1)
            past = 0 if cache[0] is None else cache[0].key.size(2)
            place = past
            if bug == "counts steps on self":
                place, self.count = self.count, self.count + T
            if bug == "positions from 0 again":
                place = 0
            if bug == "one position too far":
                place = past + 1 if past else 0
            x = self.embedding(token, place)
            mask = causal_mask(past + T, token.device)[past:]
            if bug == "no mask":
                mask = None
            if bug == "no mask with a past" and past:
                mask = None
            if bug == "no mask for several tokens after a past" and past and T > 1:
                mask = None
            if bug == "first rows of the mask":
                mask = causal_mask(past + T, token.device)[:T]
            if bug == "the past hidden" and past:
                mask = mask.clone()
                mask[:, :past] = False
            new = []
            for number, block in enumerate(self.blocks):
                source = memory.layers[number]
                if bug == "the first layer's source for all":
                    source = memory.layers[0]
                before = cache[number]
                if bug == "the first layer's past for all":
                    before = cache[0]
                source_mask = memory.mask
                if bug == "source mask ignored":
                    source_mask = None
                if bug == "layers in reverse":
                    block = self.blocks[len(self.blocks) - 1 - number]
                x, _, seen = block(x, source, mask, source_mask, before)
                new.append(seen)
            if bug == "two layers at most":
                pass
            if bug == "no last norm":
                logits = self.head(x)
            else:
                logits = self.head(self.norm(x))
            if bug == "logits of the last token":
                logits = logits[:, -1:]
            if bug == "log-probabilities":
                logits = logits.log_softmax(-1)
            if bug == "a list for a cache":
                return logits, None, new
            if bug == "old cache returned" and past:
                return logits, None, cache
            if bug == "cache of the new tokens":
                return logits, None, tuple(
                    type(s)(s.key[:, :, -T:], s.value[:, :, -T:]) for s in new
                )
            if bug == "cache kept on self":
                self.kept = getattr(self, "kept", tuple(new))
            return logits, None, tuple(new)

    return TransformerDecoder


RULE = "the points of the text"
bugs(
    make,
    {
        name: RULE
        for name in (
            "counts steps on self",
            "positions from 0 again",
            "one position too far",
            "no mask",
            "no mask with a past",
            "no mask for several tokens after a past",
            "first rows of the mask",
            "the past hidden",
            "the first layer's source for all",
            "the first layer's past for all",
            "source mask ignored",
            "layers in reverse",
            "no last norm",
            "logits of the last token",
            "log-probabilities",
            "a list for a cache",
            "old cache returned",
            "cache of the new tokens",
        )
    },
)
