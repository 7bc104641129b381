from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import bugs
from torch import nn


def make(bug):
    class EncoderBlock(nn.Module):
        def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
            super().__init__()
            self.self_attention = MultiHeadAttention(dim, num_heads)
            self.feed_forward = FeedForward(dim, hidden_dim)
            self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
            self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

        def forward(self, x, mask=None):
            one, two = self.around_self, self.around_feed_forward
            if bug == "one Residual for both":
                two = one
            if bug == "Residuals exchanged":
                one, two = two, one
            y = one.before(x)
            if bug == "keys of what is not normalised":
                seen = self.self_attention.remember(x, x)
            elif bug == "values of what is not normalised":
                seen = self.self_attention.remember(y, x)
            else:
                seen = self.self_attention.remember(y, y)
            if bug == "queries of what is not normalised":
                y = x
            if bug == "mask ignored":
                mask = None
            if bug == "mask turned around" and mask is not None:
                mask = ~mask
            context, _ = self.self_attention.ask(y, seen, mask)
            if bug == "no skip connection":
                x = context
            elif bug == "added to the normalised":
                x = one.after(y, context)
            else:
                x = one.after(x, context)
            if bug == "attention twice":
                x = one.after(x, context)
            if bug == "feed-forward first":
                pass
            if bug == "norm missing before the network":
                x = two.after(x, self.feed_forward(x))
            elif bug == "network reads the context":
                x = two.after(x, self.feed_forward(two.before(context)))
            elif bug == "network in parallel":
                x = two.after(x, self.feed_forward(y))
            elif bug == "network left out":
                pass
            elif bug == "tanh of the network":
                x = two.after(x, self.feed_forward(two.before(x)).tanh())
            else:
                x = two.after(x, self.feed_forward(two.before(x)))
            if bug == "remembers the result":
                seen = self.self_attention.remember(x, x)
            if bug == "states alone":
                return x
            if bug == "memory first":
                return seen, x
            return x, seen

    return EncoderBlock


RULE = "`after(x, f(before(x)))` for each sub-layer; return the states, and what the self-attention remembered"
bugs(
    make,
    {
        name: RULE
        for name in (
            "one Residual for both",
            "Residuals exchanged",
            "keys of what is not normalised",
            "values of what is not normalised",
            "queries of what is not normalised",
            "mask ignored",
            "mask turned around",
            "no skip connection",
            "added to the normalised",
            "attention twice",
            "norm missing before the network",
            "network reads the context",
            "network in parallel",
            "network left out",
            "tanh of the network",
            "remembers the result",
            "states alone",
            "memory first",
        )
    },
)
