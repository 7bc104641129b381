"""Answers to lab05_self_attention, written as in the lab: with its imports, and with the earlier answers as globals."""

import math

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong
from answers.signs import CUT, DEVICE, DTYPE, EXCHANGED, FITS, IN_PLACE, NONE, ONE_AXIS, ORDER, REQUIRED, WEIGHT
from torch import nn

from attention_course.attention import attend
from attention_course.questions.core import Request

PLACES = "numbers at the wrong places"
CONTEXT = "the context is no weighted sum of the values"


# --- what equivalent answers agree on ---------------------------------------------------------------------------------


def draw(g, *shape):
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def sizes(g):
    for b in (1, 2, 3, 4):
        for t in (1, 2, 6):
            yield b, t, *torch.randint(1, 6, (3,), generator=g).tolist()


def maps(g, dim, *names):
    weights = {f"{name}_proj.weight": draw(g, dim, dim) / dim**0.5 for name in names}
    return weights | {f"{name}_proj.bias": draw(g, dim) for name in names}


def masks(g, b, t, s):
    yield None
    for shape in ((t, s), (b, t, s), (b, 1, s)):
        yield torch.rand(*shape, generator=g) < 0.6


@wide("sinusoidal_positions")
def any_places(g):
    for b, t, half, past, _ in sizes(g):
        yield Request((draw(g, b, t, 2 * half), None), (2 * half,), gradients=True)
        yield Request((draw(g, b, 9 * t, 2 * half), torch.empty(past, 0)), (2 * half,), gradients=True)


@wide("self_attention")
def any_sequence(g):
    for b, t, dim, *_ in sizes(g):
        for mask in masks(g, b, t, t):
            weights = maps(g, dim, "query", "key", "value")
            yield Request((draw(g, b, t, dim), mask), (dim,), weights, gradients=True)


@wide("split_heads")
def any_whole(g):
    for b, t, h, width, _ in sizes(g):
        yield Request((draw(g, b, t, h * width), torch.empty(h, 0)), gradients=True)


@wide("merge_heads")
def any_pieces(g):
    for b, t, h, width, _ in sizes(g):
        yield Request((draw(g, b, h, t, width),), gradients=True)


@wide("multi_head_attention")
def any_heads(g):
    for b, t, s, h, width in sizes(g):
        for mask in masks(g, b, t, s):
            dim = h * width
            weights = maps(g, dim, "query", "key", "value", "output")
            inputs = (draw(g, b, t, dim), draw(g, b, s, dim), draw(g, b, s, dim), mask)
            yield Request(inputs, (dim, h), weights, gradients=True)


# --- sinusoidal_positions ---------------------------------------------------------------------------------------------


class Positions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        return x + self.lay(self.angles(x, past)).to(x.dtype)

    def angles(self, x, past):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        return t[:, None] / powers

    def lay(self, angles):
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


right("sinusoidal_positions")(Positions)


def positions(**parts):
    return type(next(iter(parts.values())).__name__, (Positions,), parts)


def positions_with(part):
    return lambda function: positions(**{part: function})


@right("sinusoidal_positions")
@positions_with("lay")
def filled_by_slices(self, angles):
    p = torch.zeros(angles.size(0), self.dim, device=angles.device)
    p[:, 0::2] = angles.sin()
    p[:, 1::2] = angles.cos()
    return p


@right("sinusoidal_positions")
@positions_with("lay")
def cosines_as_late_sines(self, angles):
    return torch.sin(torch.stack([angles, angles + math.pi / 2], dim=2)).view(angles.size(0), -1)


@right("sinusoidal_positions")
@positions_with("lay")
def interleaved_by_columns(self, angles):
    columns = [f(angles[:, i]) for i in range(angles.size(1)) for f in (torch.sin, torch.cos)]
    return torch.stack(columns, dim=1)


@right("sinusoidal_positions")
@positions_with("lay")
def hands_of_complex_numbers(self, angles):
    return torch.stack([torch.cos(math.pi / 2 - angles), torch.cos(angles)], -1).reshape(-1, self.dim)


@right("sinusoidal_positions")
@positions_with("angles")
def powers_by_exp(self, x, past):
    t = torch.arange(past, past + x.size(1), device=x.device).float()
    i = torch.arange(self.dim // 2, device=x.device).float()
    return t.unsqueeze(1) * torch.exp(-2 * i / self.dim * math.log(10000.0))


@right("sinusoidal_positions")
@positions_with("angles")
def outer_product(self, x, past):
    t = torch.arange(x.size(1), device=x.device, dtype=torch.float64) + past
    i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float64)
    return torch.outer(t, 10000.0 ** (-2 * i / self.dim))


@right("sinusoidal_positions")
@positions_with("angles")
def counted_by_cumsum(self, x, past):
    t = torch.ones(x.size(1), 1, device=x.device).cumsum(0) - 1 + past
    return t / torch.pow(10000.0, torch.arange(0, self.dim, 2, device=x.device).float() / self.dim)


@right("sinusoidal_positions")
@positions_with("angles")
def plain_python_powers(self, x, past):
    t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
    return torch.stack([t / 10000 ** (2 * i / self.dim) for i in range(self.dim // 2)], dim=1)


@right("sinusoidal_positions")
@positions_with("forward")
def token_by_token(self, x, past=0):
    rows = []
    for t in range(x.size(1)):
        rows.append(x[:, t] + self.lay(self.angles(x[:, :1], past + t))[0].to(x.dtype))
    return torch.stack(rows, dim=1)


@right("sinusoidal_positions")
@positions_with("forward")
def even_and_odd_apart(self, x, past=0):
    angles = self.angles(x, past)
    even, odd = x[..., 0::2] + angles.sin().to(x.dtype), x[..., 1::2] + angles.cos().to(x.dtype)
    return torch.stack([even, odd], dim=-1).flatten(-2)


@wrong("sinusoidal_positions", "all sines before all cosines")
@positions_with("lay")
def halves(self, angles):
    return torch.cat((torch.sin(angles), torch.cos(angles)), dim=1)


@wrong("sinusoidal_positions", "clocks half as far apart")
@positions_with("angles")
def without_the_two(self, x, past):
    t = torch.arange(past, past + x.size(1), device=x.device).float()
    return t[:, None] / 10000 ** (torch.arange(self.dim // 2, device=x.device) / self.dim)


@wrong("sinusoidal_positions", "the past is ignored")
@positions_with("forward")
def always_from_zero(self, x, past=0):
    return Positions.forward(self, x, 0)


@wrong("sinusoidal_positions", "positions returned, not added")
@positions_with("forward")
def positions_alone(self, x, past=0):
    return self.lay(self.angles(x, past)).to(x.dtype).unsqueeze(0).expand(x.size(0), -1, -1)


@wrong("sinusoidal_positions", "right at the first position alone")
@positions_with("angles")
def thousand(self, x, past):
    t = torch.arange(past, past + x.size(1), device=x.device).float()
    return t[:, None] / 1000 ** (torch.arange(0, self.dim, 2, device=x.device) / self.dim)


@wrong("sinusoidal_positions", "right at the first position alone")
@positions_with("angles")
def degrees(self, x, past):
    return Positions.angles(self, x, past) * 2 * math.pi


@wrong("sinusoidal_positions", IN_PLACE)
@positions_with("forward")
def added_in_place(self, x, past=0):
    x += self.lay(self.angles(x, past)).to(x.dtype)
    return x


@wrong("sinusoidal_positions", DEVICE)
@positions_with("angles")
def counted_on_the_cpu(self, x, past):
    t = torch.arange(past, past + x.size(1), dtype=torch.float32)
    return t[:, None] / 10000 ** (torch.arange(0, self.dim, 2, dtype=torch.float32) / self.dim)


@wrong("sinusoidal_positions", DTYPE)
@positions_with("forward")
def not_cast(self, x, past=0):
    return x + self.lay(self.angles(x, past))


@wrong("sinusoidal_positions", FITS, "right at the first position alone", ONE_AXIS)
@positions_with("angles")
def along_the_batch(self, x, past):
    t = torch.arange(past, past + x.size(0), device=x.device).float()
    return t[:, None] / 10000 ** (torch.arange(0, self.dim, 2, device=x.device) / self.dim)


@wrong("sinusoidal_positions")
@positions_with("forward")
def multiplied(self, x, past=0):
    return x * self.lay(self.angles(x, past)).to(x.dtype)


@wrong("sinusoidal_positions", REQUIRED)
@positions_with("forward")
def past_required(self, x, past):
    return Positions.forward(self, x, past)


@wrong("sinusoidal_positions", "positions counted in half precision")
@positions_with("forward")
def counted_in_the_dtype_of_x(self, x, past=0):
    t = torch.arange(past, past + x.size(1), device=x.device).to(x.dtype)
    angles = t[:, None] / 10000 ** (torch.arange(0, self.dim, 2, device=x.device) / self.dim).to(x.dtype)
    return x + self.lay(angles)


# --- self_attention ---------------------------------------------------------------------------------------------------


class Alone(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.project(x)
        return self.look(self.score(q, k), v, mask)

    def project(self, x):
        return self.query_proj(x), self.key_proj(x), self.value_proj(x)

    def score(self, q, k):
        return q @ k.mT / math.sqrt(q.size(-1))

    def look(self, scores, v, mask):
        return attend(scores, v, mask)


def alone(part):
    return lambda function: type(function.__name__, (Alone,), {part: function})


right("self_attention")(Alone)


@right("self_attention")
@alone("project")
def projected_together(self, x):
    weight = torch.cat([self.query_proj.weight, self.key_proj.weight, self.value_proj.weight])
    bias = torch.cat([self.query_proj.bias, self.key_proj.bias, self.value_proj.bias])
    return F.linear(x, weight, bias).chunk(3, dim=-1)


@right("self_attention")
@alone("project")
def projected_by_hand(self, x):
    return tuple(x @ p.weight.T + p.bias for p in (self.query_proj, self.key_proj, self.value_proj))


@right("self_attention")
@alone("score")
def scaled_queries(self, q, k):
    return (q / q.size(-1) ** 0.5) @ k.transpose(-2, -1)


@right("self_attention")
@alone("score")
def scored_with_einsum(self, q, k):
    return torch.einsum("btd,bsd->bts", q, k).mul(q.size(-1) ** -0.5)


@right("self_attention")
@alone("score")
def scored_by_sums(self, q, k):
    return (q.unsqueeze(2) * k.unsqueeze(1)).sum(-1) / math.sqrt(k.size(-1))


@right("self_attention")
@alone("score")
def query_after_query(self, q, k):
    return torch.cat([row @ k.mT for row in q.split(1, dim=1)], dim=1) * (1 / math.sqrt(q.size(-1)))


@right("self_attention")
@alone("look")
def look_by_hand(self, scores, v, mask):
    e = torch.exp(scores if mask is None else scores.masked_fill(~mask, -1e30))
    weights = e / e.sum(-1, keepdim=True).clamp_min(1e-30)
    return weights @ v, weights


@right("self_attention")
@alone("look")
def look_with_a_bias(self, scores, v, mask):
    if mask is not None:
        scores = scores + torch.zeros_like(scores).masked_fill(~mask, -1e30)
    weights = F.softmax(scores, dim=2)
    return torch.bmm(weights, v), weights


@right("self_attention")
@alone("look")
def look_with_einsum(self, scores, v, mask):
    _, weights = attend(scores, v, mask)
    return torch.einsum("bts,bsd->btd", weights, v), weights


@right("self_attention")
@alone("look")
def look_by_shares(self, scores, v, mask):
    _, weights = attend(scores, v, mask)
    return (weights[..., None] * v[:, None]).sum(2), weights


@wrong("self_attention", "scale missing")
@alone("score")
def not_scaled(self, q, k):
    return torch.matmul(q, k.transpose(1, 2))


@wrong("self_attention", "scaled by the length of the sequence")
@alone("score")
def scaled_by_length(self, q, k):
    return q @ k.mT / k.size(1) ** 0.5


@wrong("self_attention")
@alone("score")
def scaled_by_eight(self, q, k):
    return q @ k.mT / 8


@wrong("self_attention", FITS)
@alone("score")
def not_turned(self, q, k):
    return q @ k / math.sqrt(q.size(-1))


@wrong("self_attention", "values not projected", CONTEXT)
@alone("project")
def values_as_they_are(self, x):
    return self.query_proj(x), self.key_proj(x), x


@wrong("self_attention", CONTEXT)
@alone("project")
def values_through_the_key_map(self, x):
    return self.query_proj(x), self.key_proj(x), self.key_proj(x)


@wrong("self_attention", "keys ask queries", "axes exchanged")
@alone("project")
def query_and_key_exchanged(self, x):
    return self.key_proj(x), self.query_proj(x), self.value_proj(x)


@wrong("self_attention", WEIGHT)
@alone("look")
def unmasked(self, scores, v, mask):
    return attend(scores, v)


@wrong("self_attention", WEIGHT)
@alone("look")
def masked_inside_out(self, scores, v, mask):
    return attend(scores, v, None if mask is None else ~mask)


@wrong("self_attention", NONE)
@alone("look")
def mask_needed(self, scores, v, mask):
    return attend(scores, v, mask.bool())


@wrong("self_attention", ORDER)
@alone("look")
def weights_first(self, scores, v, mask):
    context, weights = attend(scores, v, mask)
    return weights, context


@wrong("self_attention", CUT)
@alone("score")
def scores_without_gradient(self, q, k):
    return (q @ k.mT / math.sqrt(q.size(-1))).detach()


@wrong("self_attention", "too much or too little is returned")
@alone("look")
def context_alone(self, scores, v, mask):
    return attend(scores, v, mask)[0]


@wrong("self_attention", CONTEXT)
@alone("look")
def residual_added(self, scores, v, mask):
    context, weights = attend(scores, v, mask)
    return context + v, weights


# --- split_heads ------------------------------------------------------------------------------------------------------


@right("split_heads")
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@right("split_heads")
def viewed_and_permuted(x, num_heads):
    b, t, d = x.shape
    return x.view(b, t, num_heads, d // num_heads).permute(0, 2, 1, 3)


@right("split_heads")
def chunked(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@right("split_heads")
def piece_by_piece(x, num_heads):
    width = x.size(-1) // num_heads
    return torch.stack([x[:, :, h * width : (h + 1) * width] for h in range(num_heads)], dim=1)


@right("split_heads")
def joined_along_a_new_axis(x, num_heads):
    return torch.cat([piece.unsqueeze(1) for piece in x.split(x.size(-1) // num_heads, dim=2)], dim=1)


@right("split_heads")
def unfolded(x, num_heads):
    width = x.size(-1) // num_heads
    return x.unfold(-1, width, width).transpose(1, 2).clone()


@right("split_heads")
def turned_then_cut(x, num_heads):
    return x.mT.unflatten(1, (num_heads, -1)).mT


@right("split_heads")
def made_contiguous(x, num_heads):
    return x.reshape(x.size(0), x.size(1), num_heads, -1).transpose(1, 2).contiguous()


@right("split_heads")
def token_after_token(x, num_heads):
    return torch.stack([token.reshape(x.size(0), num_heads, -1) for token in x.unbind(1)], dim=2)


@right("split_heads")
def sentence_after_sentence(x, num_heads):
    return torch.stack([s.unflatten(1, (num_heads, -1)).transpose(0, 1) for s in x])


@right("split_heads")
def with_einsum(x, num_heads):
    return torch.einsum("bthd->bhtd", x.unflatten(-1, (num_heads, -1))) * 1


@wrong("split_heads", "heads split by view, without transpose")
def viewed(x, num_heads):
    return x.contiguous().view(x.size(0), num_heads, x.size(1), x.size(2) // num_heads)


@wrong("split_heads", "pieces interleaved")
def interleaved(x, num_heads):
    return x.unflatten(-1, (x.size(-1) // num_heads, num_heads)).permute(0, 3, 1, 2)


@wrong("split_heads", "transpose missing")
def not_transposed(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=2)


@wrong("split_heads", EXCHANGED)
def heads_last(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(2, 3)


@wrong("split_heads", FITS)
def sizes_exchanged(x, num_heads):
    return x.unflatten(-1, (num_heads, num_heads)).transpose(1, 2)


@wrong("split_heads", EXCHANGED)
def width_before_positions(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).permute(0, 2, 3, 1)


@wrong("split_heads", PLACES)
def heads_in_reverse(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2).flip(1)


@wrong("split_heads", "axes exchanged", PLACES)
def heads_before_sentences(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1))


@wrong("split_heads", CUT)
def detached_pieces(x, num_heads):
    return split_heads(x.detach(), num_heads)


@wrong("split_heads", "nothing returned")
def nothing(x, num_heads):
    x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong("split_heads", CUT)
def through_numpy(x, num_heads):
    pieces = x.detach().numpy().reshape(x.size(0), x.size(1), num_heads, -1)
    return torch.from_numpy(pieces).transpose(1, 2) + 0 * split_heads(x, num_heads)


# --- merge_heads ------------------------------------------------------------------------------------------------------


@right("merge_heads")
def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


@right("merge_heads")
def permuted_and_reshaped(x):
    return x.permute(0, 2, 1, 3).reshape(x.size(0), x.size(2), -1)


@right("merge_heads")
def side_by_side(x):
    return torch.cat(x.unbind(1), dim=-1)


@right("merge_heads")
def contiguous_and_viewed(x):
    b, h, t, d = x.shape
    return x.swapaxes(1, 2).contiguous().view(b, t, h * d)


@right("merge_heads")
def head_after_head(x):
    merged = x[:, 0]
    for h in range(1, x.size(1)):
        merged = torch.cat([merged, x[:, h]], dim=-1)
    return merged


@right("merge_heads")
def tokens_flattened(x):
    return torch.stack([token.flatten(1) for token in x.unbind(2)], dim=1)


@right("merge_heads")
def sentences_flattened(x):
    return torch.stack([sentence.transpose(0, 1).flatten(1) for sentence in x])


@right("merge_heads")
def turned_and_flattened(x):
    return x.mT.flatten(1, 2).mT


@right("merge_heads")
def into_an_empty_one(x):
    b, h, t, d = x.shape
    merged = x.new_zeros(b, t, h * d)
    for number in range(h):
        merged[..., number * d : (number + 1) * d] = x[:, number]
    return merged


@right("merge_heads")
def by_split(x):
    return torch.cat([head.squeeze(1) for head in x.split(1, dim=1)], dim=2)


@right("merge_heads")
def merged_with_einsum(x):
    return (torch.einsum("bhtd->bthd", x) * 1).flatten(2)


@wrong("merge_heads", "heads merged by view, without transpose")
def viewed_back(x):
    b, h, t, d = x.shape
    return x.contiguous().view(b, t, h * d)


@wrong("merge_heads", "pieces interleaved")
def pieces_mixed(x):
    return torch.stack(x.unbind(1), dim=-1).flatten(2)


@wrong("merge_heads", "heads added up")
def added_up(x):
    return x.sum(dim=1)


@wrong("merge_heads")
def averaged(x):
    return x.mean(dim=1)


@wrong("merge_heads", EXCHANGED, PLACES)
def flattened_without_transpose(x):
    return x.flatten(1, 2)


@wrong("merge_heads", PLACES, EXCHANGED)
def flattened_too_early(x):
    return x.transpose(1, 2).flatten(1, 2)


@wrong("merge_heads", "axes exchanged", PLACES)
def columns(x):
    return x.transpose(2, 3).flatten(1, 2)


@wrong("merge_heads", PLACES)
def last_head_first(x):
    return torch.cat(x.flip(1).unbind(1), dim=-1)


@wrong("merge_heads", FITS)
def view_without_contiguous(x):
    return x.transpose(1, 2).view(x.size(0), x.size(2), x.size(3))


@wrong("merge_heads", CUT)
def merged_without_gradient(x):
    with torch.no_grad():
        return merge_heads(x)


@wrong("merge_heads", "a name that does not exist")
def misspelt(x):
    return x.swap(1, 2).flatten(2)


# --- multi_head_attention ---------------------------------------------------------------------------------------------


class Heads(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q, k, v = (self.split(x) for x in self.project(query, key, value))
        context, weights = self.look(self.score(q, k), v, self.spread(mask))
        return self.finish(context), weights

    def project(self, query, key, value):
        return self.query_proj(query), self.key_proj(key), self.value_proj(value)

    def split(self, x):
        return split_heads(x, self.num_heads)

    def score(self, q, k):
        return q @ k.mT / math.sqrt(q.size(-1))

    def spread(self, mask):
        return mask[:, None] if mask is not None and mask.dim() == 3 else mask

    def look(self, scores, v, mask):
        return attend(scores, v, mask)

    def finish(self, context):
        return self.output_proj(merge_heads(context))


def heads(part):
    return lambda function: type(function.__name__, (Heads,), {part: function})


right("multi_head_attention")(Heads)
for split in (viewed_and_permuted, chunked, turned_then_cut):
    right("multi_head_attention")(
        type(split.__name__, (Heads,), {"split": lambda self, x, split=split: split(x, self.num_heads)})
    )


@right("multi_head_attention")
@heads("project")
def weights_by_hand(self, query, key, value):
    maps = ((query, self.query_proj), (key, self.key_proj), (value, self.value_proj))
    return [x @ p.weight.T + p.bias for x, p in maps]


@right("multi_head_attention")
@heads("score")
def scores_with_einsum(self, q, k):
    return torch.einsum("bhtd,bhsd->bhts", q, k) / q.size(-1) ** 0.5


@right("multi_head_attention")
@heads("score")
def scores_by_sums(self, q, k):
    return (q[..., :, None, :] * k[..., None, :, :]).sum(-1).div(math.sqrt(k.size(-1)))


@right("multi_head_attention")
@heads("look")
def look_after_a_fill(self, scores, v, mask):
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), torch.finfo(scores.dtype).min)
    weights = scores.log_softmax(dim=-1).exp()
    return weights @ v, weights


@right("multi_head_attention")
@heads("look")
def look_by_contraction(self, scores, v, mask):
    weights = attend(scores, v, mask)[1]
    return torch.einsum("bhts,bhsd->bhtd", weights, v), weights


@right("multi_head_attention")
@heads("finish")
def finished_by_reshape(self, context):
    b, h, t, d = context.shape
    return self.output_proj(context.permute(0, 2, 1, 3).reshape(b, t, h * d))


@right("multi_head_attention")
@heads("finish")
def finished_head_by_head_at_once(self, context):
    weight = self.output_proj.weight.unflatten(1, (self.num_heads, -1))
    return torch.einsum("bhtd,ohd->bto", context, weight) + self.output_proj.bias


@right("multi_head_attention")
@heads("forward")
def mask_always_four_axes(self, query, key, value, mask=None):
    if mask is None:
        mask = torch.ones(query.size(1), key.size(1), dtype=torch.bool, device=query.device)
    while mask.dim() < 3:
        mask = mask.unsqueeze(0)
    return Heads.forward(self, query, key, value, mask)


@wrong("multi_head_attention", "a loop over the heads")
@heads("forward")
def looped(self, query, key, value, mask=None):
    q, k, v = (x.chunk(self.num_heads, dim=-1) for x in self.project(query, key, value))
    found = [attend(a @ b.mT / math.sqrt(a.size(-1)), c, mask) for a, b, c in zip(q, k, v)]
    contexts, weights = zip(*found)
    return self.output_proj(torch.cat(contexts, dim=-1)), torch.stack(weights, dim=1)


@wrong("multi_head_attention", "heads split by view, without transpose")
@heads("split")
def split_by_view(self, x):
    return x.view(x.size(0), self.num_heads, x.size(1), -1)


@wrong("multi_head_attention", "heads merged by view, without transpose", "the weights are right, the contexts are not")
@heads("finish")
def merged_by_view(self, context):
    b, h, t, d = context.shape
    return self.output_proj(context.reshape(b, t, h * d))


@wrong("multi_head_attention", "scaled by the width of the model, not of a head")
@heads("score")
def scaled_by_the_model(self, q, k):
    return q @ k.mT / math.sqrt(self.query_proj.in_features)


@wrong("multi_head_attention", "scale missing")
@heads("score")
def scale_forgotten(self, q, k):
    return torch.einsum("bhtd,bhsd->bhts", q, k)


@wrong("multi_head_attention", FITS)
@heads("spread")
def mask_without_heads(self, mask):
    return mask


@wrong("multi_head_attention", FITS, WEIGHT)
@heads("spread")
def mask_with_heads_first(self, mask):
    return None if mask is None else mask[None]


@wrong("multi_head_attention", WEIGHT)
@heads("spread")
def mask_dropped(self, mask):
    return None


@wrong("multi_head_attention", "output map missing", "the weights are right, the contexts are not")
@heads("finish")
def no_output_map(self, context):
    return merge_heads(context)


@wrong("multi_head_attention", "the weights are right, the contexts are not")
@heads("finish")
def mapped_before_merging(self, context):
    return merge_heads(split_heads(self.output_proj(merge_heads(context)), self.num_heads).tanh())


@wrong("multi_head_attention", "values taken from the keys", "the weights are right, the contexts are not")
@heads("project")
def keys_for_values(self, query, key, value):
    return self.query_proj(query), self.key_proj(key), self.value_proj(key)


@wrong("multi_head_attention", "keys and values taken from the query")
@heads("project")
def all_from_the_query(self, query, key, value):
    return self.query_proj(query), self.key_proj(query), self.value_proj(query)


@wrong("multi_head_attention", "the mean over the heads is returned")
@heads("look")
def mean_weights(self, scores, v, mask):
    context, weights = attend(scores, v, mask)
    return context, weights.mean(dim=1)


@wrong("multi_head_attention", NONE)
@heads("spread")
def mask_taken_for_granted(self, mask):
    return mask.unsqueeze(1)


@wrong("multi_head_attention", CUT)
@heads("finish")
def output_map_frozen(self, context):
    return F.linear(merge_heads(context), self.output_proj.weight.detach(), self.output_proj.bias.detach())


@wrong("multi_head_attention")
@heads("score")
def scores_of_one_head(self, q, k):
    return (q[:, :1] @ k[:, :1].mT / math.sqrt(q.size(-1))).expand(-1, q.size(1), -1, -1)
