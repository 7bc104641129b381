import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory

from blind import right, wrong


@right("float64 from the predicted position on, einsum for everything")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.einsum("btd,hd->bth", query, self.hidden_proj.weight).tanh()
        logit = torch.einsum("bth,oh->bt", hidden, self.position_proj.weight)
        tokens = torch.einsum("bos->bo", memory.mask.double())  # (B, 1)
        centre = tokens * logit.double().sigmoid()
        places = torch.arange(scores.size(2), device=scores.device, dtype=centre.dtype)
        offset = places[None, None] - centre.unsqueeze(2)
        window = memory.mask.logical_and(offset.abs() <= self.half_width)
        weights = masked_softmax(scores.double(), window)
        weights = weights * torch.exp(-2 * (offset / self.half_width) ** 2)
        context = torch.einsum("bts,bse->bte", weights, memory.value.double())
        return context.to(memory.value.dtype), weights.to(scores.dtype)


@right("one sentence at a time without its padding; pads the weights afterwards")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        contexts, rows = [], []
        for b, length in enumerate(memory.mask.sum(dim=(1, 2)).tolist()):
            logit = self.position_proj(torch.tanh(self.hidden_proj(query[b])))  # (T, 1)
            wide = torch.promote_types(logit.dtype, torch.float32)
            places = torch.arange(length, device=query.device)
            offset = places - length * torch.sigmoid(logit.to(wide))  # (T, length)
            outside = offset.abs().gt(self.half_width)
            e = scores[b, :, :length].masked_fill(outside, -torch.inf)
            gaussian = torch.exp(-offset.square() / (2 * (self.half_width / 2) ** 2))
            weights = e.softmax(dim=-1) * gaussian.to(e.dtype)
            contexts.append(weights @ memory.value[b, :length])
            rows.append(F.pad(weights, (0, scores.size(2) - length)))
        return torch.stack(contexts), torch.stack(rows)


@right("adds the logarithm of the Gaussian to a log-softmax, in float32 at least")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def predict(self, query, mask):
        logit = self.position_proj(self.hidden_proj(query).tanh())[..., 0]
        wide = torch.promote_types(query.dtype, torch.float32)
        return torch.count_nonzero(mask, dim=-1) * logit.to(wide).sigmoid()

    def forward(self, scores, query, position, memory):
        centre = self.predict(query, memory.mask)
        squares = torch.stack(
            [(s - centre) ** 2 for s in range(scores.size(2))], dim=-1
        )  # (B, T, S)
        window = memory.mask * (squares.sqrt().detach() <= self.half_width)
        e = scores.to(centre.dtype)
        e = torch.where(window, e, torch.finfo(e.dtype).min).log_softmax(dim=-1)
        weights = torch.exp(e - 2 * squares / self.half_width**2) * window
        weights = weights.to(scores.dtype)
        return torch.bmm(weights, memory.value), weights


@right("gathers the positions around the predicted one and scatters their weights")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)  # (B, 1)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query))).squeeze(2)
        wide = torch.promote_types(logit.dtype, torch.float32)
        centre = (length * torch.sigmoid(logit.to(wide))).unsqueeze(2)  # (B, T, 1)
        reach = min(self.half_width, scores.size(2))
        around = torch.arange(-reach, reach + 2, device=scores.device)
        places = centre.detach().floor().long() + around  # (B, T, K)
        offset = places - centre
        inside = (places >= 0) & (places < length.unsqueeze(2))
        inside = inside & (offset.abs() <= self.half_width)
        index = places.clamp(0, scores.size(2) - 1)
        near = masked_softmax(scores.gather(2, index), inside)
        near = near * torch.exp(-((offset / (self.half_width / 2)) ** 2) / 2).to(
            near.dtype
        )
        weights = torch.zeros_like(scores).scatter_add(2, index, near)
        return weights @ memory.value, weights


@wrong(
    "divides the weights by their sum after the Gaussian",
    "The products are the weights that you return and compute the context from, and"
    " they need not sum to one.",
    "renormalised weights",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        hidden = torch.tanh(self.hidden_proj(query))
        centre = length * torch.sigmoid(self.position_proj(hidden))[..., 0]
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return weights @ memory.value, weights


@wrong(
    "forgets the parentheses of the denominator and multiplies by (w/2)^2 (right for"
    " w = 2)",
    r"\exp\Big(-\frac{(s - p_t)^2}{2\, (w/2)^2}\Big)",
    "precedence of / and *",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        hidden = torch.tanh(self.hidden_proj(query))
        centre = length * torch.sigmoid(self.position_proj(hidden))[..., 0]
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / 2 * (self.half_width / 2) ** 2)
        return weights @ memory.value, weights


@wrong(
    "takes the padded length of the batch for the length of each sentence",
    "In this formula, $S$ is the number of tokens in the sentence, without its padding.",
    "padded length",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.tanh(self.hidden_proj(query))
        centre = scores.size(-1) * torch.sigmoid(self.position_proj(hidden))[..., 0]
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "leaves out the positions that are exactly w away, as with a query of zeros and"
    " four tokens: p is 2, and for w = 1 the positions 1 and 3 are lost",
    "In the method *local-p*, each query predicts a position $p_t$ and attends only to"
    " the source positions that are at most $w$ away from it:",
    "< instead of <=",
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        hidden = torch.tanh(self.hidden_proj(query))
        centre = length * torch.sigmoid(self.position_proj(hidden))[..., 0]
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance < self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "detaches the distance for the window and uses it for the Gaussian, too, so the"
    " network that predicts the position gets no gradient",
    "Only the Gaussian gives $p_t$ a gradient.",
    "predicted position detached",
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        hidden = torch.tanh(self.hidden_proj(query))
        centre = length * torch.sigmoid(self.position_proj(hidden))[..., 0]
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None].detach()).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "computes w/2 by a division of whole numbers: 2 instead of 2.5 for w = 5, and a"
    " division by zero for w = 1; right for even w",
    r"\exp\Big(-\frac{(s - p_t)^2}{2\, (w/2)^2}\Big)",
    "// instead of /, odd half-widths",
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        sigma = self.half_width // 2
        hidden = torch.tanh(self.hidden_proj(query))
        centre = length * torch.sigmoid(self.position_proj(hidden))[..., 0]
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * sigma**2))
        return weights @ memory.value, weights


@wrong(
    "positions in float32 make the Gaussian and the weights float32 for bfloat16"
    " inputs (context cast back, weights not)",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "weights of another dtype",
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        hidden = torch.tanh(self.hidden_proj(query))
        centre = length * torch.sigmoid(self.position_proj(hidden))[..., 0]
        places = torch.arange(
            scores.size(-1), dtype=torch.float32, device=scores.device
        )
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights.to(memory.value.dtype) @ memory.value, weights


@wrong(
    "clips the predicted position at the last token, S - 1, although it may lie between"
    " S - 1 and S",
    r"p_t = S\, \sigma\big(u^\top \tanh(W h_t)\big)",
    "predicted position clipped at the end",
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        hidden = torch.tanh(self.hidden_proj(query))
        centre = length * torch.sigmoid(self.position_proj(hidden))[..., 0]
        centre = torch.minimum(centre, (length - 1).to(centre.dtype))
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "makes the source positions on the CPU, so the subtraction fails on a GPU",
    "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU.",
    "arange without device",
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        hidden = torch.tanh(self.hidden_proj(query))
        centre = length * torch.sigmoid(self.position_proj(hidden))[..., 0]
        places = torch.arange(scores.size(-1))
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "squeeze() also removes the target axis of a single query, and (B, 1) times (B,)"
    " is (B, B): fails for T = 1 and B > 1",
    "Even a single target position has an axis of its own, of length one.",
    "squeeze() without dim, a single query",
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        hidden = torch.tanh(self.hidden_proj(query))
        centre = length * torch.sigmoid(self.position_proj(hidden)).squeeze()
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights
