"""What answers of this lab share: the class that it gives, and the parts of a step in
many ways."""

import torch
import torch.nn.functional as F
from answers.core import draw
from torch import nn

from attention_course.attention import attend, masked_softmax


def sizes(g):
    for b, s in ((1, 1), (1, 4), (3, 1), (4, 6), (2, 9), (3, 5), (2, 3), (4, 4)):
        yield b, s, *torch.randint(1, 7, (5,), generator=g).tolist()


def memories(g, b, s, d, e, a):
    for share in (0.4, 0.8, 1.0):
        mask = torch.rand(b, 1, s, generator=g) < share
        mask[:, :, 0] = True
        yield draw(g, b, s, a), draw(g, b, s, e), mask, draw(g, b, d)


def decoder_weights(g, vocabulary, embedding, d, e, a, reads, says, mixes=None):
    def map_of(name, *shape):
        return {name: draw(g, *shape) / 2}

    weights = {
        **map_of("embedding.weight", vocabulary, embedding),
        **map_of("bridge.weight", d, e),
        **map_of("bridge.bias", d),
        **map_of("score.query_proj.weight", a, d),
        **map_of("score.key_proj.weight", a, e),
        **map_of("score.energy_proj.weight", 1, a),
        **map_of("head.weight", vocabulary, says),
        **map_of("head.bias", vocabulary),
    }
    layer = "" if mixes is None else "_l0"
    for which, width in (("ih", reads), ("hh", d)):
        weights |= map_of(f"rnn.weight_{which}{layer}", 3 * d, width)
        weights |= map_of(f"rnn.bias_{which}{layer}", 3 * d)
    return (
        weights
        if mixes is None
        else weights | map_of("attentional_proj.weight", d, mixes)
    )


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
        return attend(self.score(query, memory.key), memory.value, memory.mask)


def embed_by_index(self, token):
    return self.embedding.weight[token]


def embed_by_product(self, token):
    weight = self.embedding.weight
    chosen = token.unsqueeze(-1) == torch.arange(weight.size(0), device=token.device)
    return chosen.to(weight.dtype) @ weight


def look_with_a_fill(self, query, memory):
    scores = self.score(query, memory.key).masked_fill(~memory.mask, -1e30)
    weights = torch.softmax(scores, dim=-1)
    return weights @ memory.value, weights


def look_with_einsum(self, query, memory):
    weights = masked_softmax(self.score(query, memory.key), memory.mask)
    return torch.einsum("bts,bse->bte", weights, memory.value), weights


def look_by_shares(self, query, memory):
    weights = masked_softmax(self.score(query, memory.key), memory.mask)
    return (weights[..., None] * memory.value[:, None]).sum(2), weights


def look_by_hand(self, query, memory):
    hidden = torch.tanh(self.score.query_proj(query)[:, :, None] + memory.key[:, None])
    scores = torch.where(
        memory.mask, (hidden * self.score.energy_proj.weight[0]).sum(-1), -1e30
    )
    weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
    return torch.bmm(weights, memory.value), weights


PARTS = {
    "embed": (embed_by_index, embed_by_product),
    "look": (look_with_a_fill, look_with_einsum, look_by_shares, look_by_hand),
}


def gates(x, state, w_x, w_h, b_x, b_h):
    """One step of a gated recurrent unit, as its documentation writes it."""
    r_x, z_x, n_x = F.linear(x, w_x, b_x).chunk(3, dim=-1)
    r_h, z_h, n_h = F.linear(state, w_h, b_h).chunk(3, dim=-1)
    z = torch.sigmoid(z_x + z_h)
    return (1 - z) * torch.tanh(n_x + torch.sigmoid(r_x + r_h) * n_h) + z * state
