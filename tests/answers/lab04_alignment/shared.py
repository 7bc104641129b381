"""What answers of this lab share: the class that it gives, and ways to write a step."""

import torch
import torch.nn.functional as F
from answers.core import draw, right_edits, variations
from torch import nn

from attention_course.attention import masked_softmax
from attention_course.scores import AdditiveScore
from nbjudge import edit
from nbjudge.question import Request


def sizes(g):
    for b, s in ((1, 1), (1, 4), (3, 1), (4, 6), (2, 9), (3, 5), (2, 3), (4, 4)):
        yield b, s, *torch.randint(1, 7, (5,), generator=g).tolist()


def draw_for(g, module):
    """Draw a module's parameters."""
    return {name: draw(g, *x.shape) / 2 for name, x in module.named_parameters()}


def any_decoder(g, decoder, tokens=None, states=1):
    """Use a decoder with sizes and masks of many kinds."""
    for b, s, v, m, d, e, a in sizes(g):
        for t, share in enumerate((0.4, 0.8, 1.0), start=1):
            mask = torch.rand(b, 1, s, generator=g) < share
            mask[:, :, 0] = True
            inputs = (
                torch.randint(v, (b, tokens or t), generator=g),
                *(draw(g, b, d) for _ in range(states)),
                *(draw(g, b, s, a), draw(g, b, s, e), mask, draw(g, b, d)),
            )
            drawn = draw_for(g, decoder(v, m, d, e, AdditiveScore(d, e, a)))
            yield Request(inputs, (v, m, d, e, a), drawn, gradients=True)


class Decoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.score = score

    def start(self, memory):
        return memory.state

    # A student writes these lines one below the other; here they are apart, so that
    # each can be written otherwise.
    def embed(self, token):
        return self.embedding(token)

    def look(self, query, memory):
        weights = masked_softmax(self.score(query, memory.key), memory.mask)
        return weights @ memory.value, weights


def embed_by_index(self, token):
    return self.embedding.weight[token]


def embed_by_product(self, token):
    weight = self.embedding.weight
    chosen = token.unsqueeze(-1) == torch.arange(weight.size(0), device=token.device)
    return chosen.to(weight.dtype) @ weight


def look_by_hand(self, query, memory):
    hidden = torch.tanh(self.score.query_proj(query)[:, :, None] + memory.key[:, None])
    scores = torch.where(
        memory.mask, (hidden * self.score.energy_proj.weight[0]).sum(-1), -1e30
    )
    odds = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = odds / odds.sum(-1, keepdim=True)
    return torch.bmm(weights, memory.value), weights


def in_parts(linear, *xs):
    """Map vectors set end to end without setting them end to end."""
    parts = linear.weight.split([x.size(-1) for x in xs], dim=1)
    mapped = sum(x @ part.T for x, part in zip(xs, parts))
    return mapped if linear.bias is None else mapped + linear.bias


def gates(x, state, w_x, w_h, b_x, b_h):
    """One step of a gated recurrent unit, as its documentation writes it."""
    r_x, z_x, n_x = F.linear(x, w_x, b_x).chunk(3, dim=-1)
    r_h, z_h, n_h = F.linear(state, w_h, b_h).chunk(3, dim=-1)
    z = torch.sigmoid(z_x + z_h)
    return (1 - z) * torch.tanh(n_x + torch.sigmoid(r_x + r_h) * n_h) + z * state


def by_gates(rnn, inputs, state=None):
    states = []
    for x in inputs.unbind(1):
        state = x.new_zeros(len(x), rnn.hidden_size) if state is None else state
        state = gates(x, state, *rnn.all_weights[0])
        states.append(state)
    return torch.stack(states, dim=1)


def token_by_token(rnn, inputs, state=None):
    states = []
    for x in inputs.split(1, dim=1):
        output, state = rnn(x, state)
        states.append(output)
    return torch.cat(states, dim=1)


def exponentials(scores, mask):
    """Take exponentials of what is forbidden, too: their gradients are not finite."""
    largest = scores.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True)
    odds = torch.where(mask, (scores - largest).exp(), 0.0)
    return odds / odds.sum(-1, keepdim=True)


EMBED = (embed_by_index, embed_by_product)


def enter_right(question, decoder, **edits):
    """Enter a decoder, and the same with each of its parts written otherwise."""
    variations(question, decoder, embed=EMBED, look=(look_by_hand,))
    right_edits(
        question,
        decoder,
        look_with_a_fill=edit(
            Decoder.look,
            "masked_softmax(self.score(query, memory.key), memory.mask)",
            "self.score(query, memory.key).masked_fill(~memory.mask, -1e30).softmax(-1)",
        ),
        look_with_einsum=edit(
            Decoder.look,
            "weights @ memory.value",
            "torch.einsum('bts,bse->bte', weights, memory.value)",
        ),
        look_by_shares=edit(
            Decoder.look,
            "weights @ memory.value",
            "(weights[..., None] * memory.value[:, None]).sum(2)",
        ),
        **edits,
    )


FORBIDDEN_OVERFLOW = edit(Decoder.look, "masked_softmax(", "exponentials(")
FILL_TOO_HIGH = edit(
    Decoder.look,
    "masked_softmax(self.score(query, memory.key), memory.mask)",
    "self.score(query, memory.key).masked_fill(~memory.mask, -1e9).softmax(-1)",
)
MASK_FORGOTTEN = edit(Decoder.look, ", memory.mask)", ")")
