"""What answers of this lab share: random inputs, and products written in many ways."""

import math

import torch
from answers.core import wide

from attention_course.scores import Score
from nbjudge import Request


def shapes(g):
    """Batches of 1 to 3 axes, then queries, sources and a width."""
    for leading in ((), (3,), (1,), (4, 2), (2, 1, 3)):
        t, s, d = torch.randint(1, 9, (3,), generator=g).tolist()
        yield leading, t, s, d


def draw(g, *shape):
    return torch.randn(*shape, generator=g, dtype=torch.float64) * 4 ** torch.rand(
        (), generator=g
    ).sub(0.5)


def masks(g, *shape):
    yield None
    for share in (0.0, 0.3, 0.9, 1.0):
        yield torch.rand(*shape, generator=g) < share


@wide("dot", "scaled_dot")
def any_vectors(g):
    for leading, t, s, d in shapes(g):
        yield Request(
            (draw(g, *leading, t, d), draw(g, *leading, s, d)), (), gradients=True
        )


def as_matrices(query, key):
    return query @ key.mT


def with_einsum(query, key):
    return torch.einsum("...td,...sd->...ts", query, key)


def as_batches(query, key):
    leading = query.shape[:-2]
    b, t, d = math.prod(leading), query.size(-2), query.size(-1)
    products = torch.bmm(query.reshape(b, t, d), key.reshape(b, -1, d).transpose(1, 2))
    return products.reshape(*leading, t, key.size(-2))


def multiplied_and_summed(query, key):
    return (query[..., :, None, :] * key[..., None, :, :]).sum(-1)


def query_by_query(query, key):
    rows = [(query[..., t : t + 1, :] * key).sum(-1) for t in range(query.size(-2))]
    return torch.stack(rows, dim=-2)


def key_by_key(query, key):
    columns = []
    for s in range(key.size(-2)):
        columns.append(query.matmul(key[..., s, :].unsqueeze(-1)))
    return torch.cat(columns, dim=-1)


def keys_first(query, key):
    return torch.matmul(key, query.transpose(-2, -1)).transpose(-2, -1)


def outer_products(query, key):
    total = 0
    for d in range(query.size(-1)):
        total = total + query[..., d].unsqueeze(-1) * key[..., d].unsqueeze(-2)
    return total


def by_polarisation(query, key):
    q, k = query.unsqueeze(-2), key.unsqueeze(-3)
    return ((q + k).pow(2).sum(-1) - (q - k).pow(2).sum(-1)) / 4


def in_halves(query, key):
    half = query.size(-1) // 2
    low = query[..., :half] @ key[..., :half].mT
    return low + query[..., half:] @ key[..., half:].mT


PRODUCTS = (
    as_matrices,
    with_einsum,
    as_batches,
    multiplied_and_summed,
    query_by_query,
    key_by_key,
    keys_first,
    outer_products,
    by_polarisation,
    in_halves,
)


def score(forward):
    return type(
        "Answer",
        (Score,),
        {"forward": lambda self, query, projected: forward(query, projected)},
    )
