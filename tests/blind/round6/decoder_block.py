from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import bugs
from torch import nn


def make(bug):
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
            if bug == "new before old" and past is not None:
                seen = now.extend(past)
            if bug == "past ignored":
                seen = now
            if bug == "past alone" and past is not None:
                seen = past
            if bug == "own past kept":
                old = getattr(self, "old", None)
                if past is not None and old is not None and (
                    old.key.shape == past.key.shape
                ):
                    seen = old.extend(now)
                self.old = seen
            asked = mask
            if bug == "masks exchanged":
                asked, source_mask = source_mask, mask
            if bug == "mask ignored with a past" and past is not None:
                asked = None
            if bug == "mask ignored":
                asked = None
            context, _ = self.self_attention.ask(y, seen, asked)
            first = x
            x = self.around_self.after(x, context)
            z = self.around_cross.before(x)
            if bug == "source asked before the self-attention":
                z = self.around_cross.before(first)
            if bug == "source asked by what is not normalised":
                z = x
            if bug == "source mask ignored":
                source_mask = None
            if bug == "self-attention asks the source":
                context, weights = self.self_attention.ask(z, source, source_mask)
            else:
                context, weights = self.cross_attention.ask(z, source, source_mask)
            if bug == "weights of the self-attention":
                _, weights = self.self_attention.ask(y, seen, asked)
            if bug == "no skip around the source":
                x = context
            else:
                x = self.around_cross.after(x, context)
            if bug == "norm of the source's sub-layer once more":
                w = self.around_cross.before(x)
            else:
                w = self.around_feed_forward.before(x)
            if bug == "network before the source":
                w = self.around_feed_forward.before(z)
            x = self.around_feed_forward.after(x, self.feed_forward(w))
            if bug == "mean of the weights" and weights is not None:
                weights = weights.mean(1)
            if bug == "never weights":
                weights = None
            if bug == "new keys alone returned":
                seen = now
            if bug == "the source returned":
                seen = source
            return x, weights, seen

    return DecoderBlock


RULE = "the three sub-layers, the two masks, the past and what is returned"
bugs(
    make,
    {
        name: RULE
        for name in (
            "new before old",
            "past ignored",
            "past alone",
            "own past kept",
            "masks exchanged",
            "mask ignored with a past",
            "mask ignored",
            "source asked before the self-attention",
            "source asked by what is not normalised",
            "source mask ignored",
            "self-attention asks the source",
            "weights of the self-attention",
            "no skip around the source",
            "norm of the source's sub-layer once more",
            "network before the source",
            "mean of the weights",
            "never weights",
            "new keys alone returned",
            "the source returned",
        )
    },
)
