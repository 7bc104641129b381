import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend, masked_softmax
from blind import right, wrong


@right('softmax and Gaussian together in log space')
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts.

    Args:
        query_dim: width D of a query.
        hidden_dim: width of the network that predicts the position.
        half_width: w, a whole number of tokens, at least 1.
    """

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        precise = torch.promote_types(scores.dtype, torch.float32)
        tokens = memory.mask.count_nonzero(dim=2).to(precise)
        logit = self.position_proj(self.hidden_proj(query).tanh()).squeeze(-1)
        centre = (tokens * logit.to(precise).sigmoid()).unsqueeze(-1)
        places = torch.arange(scores.shape[2], device=scores.device, dtype=precise)
        outside = ((places - centre).abs() > self.half_width) | ~memory.mask
        log_weights = scores.to(precise).masked_fill(outside, -torch.inf).log_softmax(-1)
        log_gaussian = -2 * ((places - centre) / self.half_width).square()
        weights = (log_weights + log_gaussian).exp().to(scores.dtype)
        return torch.bmm(weights, memory.value), weights


@right('sentence by sentence without the padding, which is put back at the end')
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts.

    Args:
        query_dim: width D of a query.
        hidden_dim: width of the network that predicts the position.
        half_width: w, a whole number of tokens, at least 1.
    """

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        all_weights = []
        precise = torch.promote_types(scores.dtype, torch.float32)
        logits = self.position_proj(torch.tanh(self.hidden_proj(query))).to(precise)
        for row, logit, mask in zip(scores, logits, memory.mask):
            length = int(mask.sum())
            difference = torch.arange(length, device=row.device) - length * logit.sigmoid()
            outside = difference.abs() > self.half_width
            weights = row[:, :length].masked_fill(outside, -torch.inf).softmax(dim=-1)
            variance = self.half_width**2 / 4
            weights = weights * torch.exp(difference * difference / (-2 * variance))
            padded = F.pad(weights, (0, row.shape[-1] - length))
            all_weights.append(padded.to(scores.dtype))
        stacked = torch.stack(all_weights)
        return torch.einsum("bts,bse->bte", stacked, memory.value), stacked


def _softmax(scores, allowed):
    """Softmax over the allowed positions, zero elsewhere."""
    lowest = torch.finfo(scores.dtype).min
    top = scores.masked_fill(~allowed, lowest).amax(dim=-1, keepdim=True).detach()
    powers = (scores - top).masked_fill(~allowed, -torch.inf).exp()
    return powers / powers.sum(dim=-1, keepdim=True).clamp(min=1)  # one is exp(0)


@right('the network by einsum, a window between two bounds, own softmax')
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts.

    Args:
        query_dim: width D of a query.
        hidden_dim: width of the network that predicts the position.
        half_width: w, a whole number of tokens, at least 1.
    """

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.einsum("btd,hd->bth", query, self.hidden_proj.weight).tanh()
        share = (hidden @ self.position_proj.weight[0]).double().sigmoid()
        centre = torch.mul(memory.mask.sum(-1), share)[:, :, None]
        places = torch.arange(scores.shape[-1], device=scores.device).double()
        w = self.half_width
        window = (places >= (centre - w).ceil()) & (places <= (centre + w).floor())
        soft = _softmax(scores, window & memory.mask)
        weights = (soft * (-2 / w**2 * (places - centre) ** 2).exp()).to(scores.dtype)
        return weights.matmul(memory.value), weights


def _predict(module, query, mask):
    """Positions (B, T) in at least float32."""
    logit = module.position_proj(module.hidden_proj(query).tanh())[:, :, 0]
    logit = logit.to(torch.promote_types(logit.dtype, torch.float32))
    return logit.sigmoid() * mask.sum(dim=2)


@right('one query at a time, squared distances only')
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts.

    Args:
        query_dim: width D of a query.
        hidden_dim: width of the network that predicts the position.
        half_width: w, a whole number of tokens, at least 1.
    """

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        contexts, rows = [], []
        places = torch.arange(scores.size(-1), device=scores.device)
        allowed = memory.mask[:, 0]
        for t, centre in enumerate(_predict(self, query, memory.mask).unbind(1)):
            squares = (centre[:, None] - places).square()
            inside = allowed.logical_and(squares <= self.half_width**2)
            soft = masked_softmax(scores[:, t], inside)
            row = torch.mul(soft, squares.div(-0.5 * self.half_width**2).exp())
            rows.append(row.to(scores.dtype))
            contexts.append(torch.einsum("bs,bse->be", rows[-1], memory.value))
        return torch.stack(contexts, dim=1), torch.stack(rows, dim=1)


@wrong(
    'takes the padded length for S',
    'In this formula, $S$ is the number of tokens in the sentence, without its padding.',
    'padding counted in S',
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts.

    Args:
        query_dim: width D of a query.
        hidden_dim: width of the network that predicts the position.
        half_width: w, a whole number of tokens, at least 1.
    """

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        precise = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
        predicted = scores.shape[-1] * torch.sigmoid(logit.to(precise))
        places = torch.arange(scores.shape[-1], device=scores.device)
        distance = (places - predicted[..., None]).abs()
        window = memory.mask & (distance <= self.half_width)
        gaussian = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = (masked_softmax(scores, window) * gaussian).to(scores.dtype)
        return weights @ memory.value, weights


@wrong(
    'computes the context from the softmax before the Gaussian',
    'The products are the weights that you return and compute the context from, and they need not sum to one.',
    'context without the Gaussian',
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts.

    Args:
        query_dim: width D of a query.
        hidden_dim: width of the network that predicts the position.
        half_width: w, a whole number of tokens, at least 1.
    """

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        precise = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
        predicted = memory.mask.sum(dim=-1) * torch.sigmoid(logit.to(precise))
        places = torch.arange(scores.shape[-1], device=scores.device)
        distance = (places - predicted[..., None]).abs()
        window = memory.mask & (distance <= self.half_width)
        gaussian = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        context, weights = attend(scores, memory.value, window)
        return context, (weights * gaussian).to(scores.dtype)


@wrong(
    'softmax over the whole sentence, and zeros outside the window afterwards',
    'Apply the softmax only to the positions in the window.',
    'window after the softmax',
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts.

    Args:
        query_dim: width D of a query.
        hidden_dim: width of the network that predicts the position.
        half_width: w, a whole number of tokens, at least 1.
    """

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        precise = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
        predicted = memory.mask.sum(dim=-1) * torch.sigmoid(logit.to(precise))
        places = torch.arange(scores.shape[-1], device=scores.device)
        distance = (places - predicted[..., None]).abs()
        gaussian = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        near = distance <= self.half_width
        weights = masked_softmax(scores, memory.mask) * near * gaussian
        weights = weights.to(scores.dtype)
        return weights @ memory.value, weights


@wrong(
    'whole-number division in w/2: too narrow for an odd w, and 0 for w = 1',
    '\\exp\\Big(-\\frac{(s - p_t)^2}{2\\, (w/2)^2}\\Big)',
    'w // 2 instead of w / 2',
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts.

    Args:
        query_dim: width D of a query.
        hidden_dim: width of the network that predicts the position.
        half_width: w, a whole number of tokens, at least 1.
    """

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        precise = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
        predicted = memory.mask.sum(dim=-1) * torch.sigmoid(logit.to(precise))
        places = torch.arange(scores.shape[-1], device=scores.device)
        distance = (places - predicted[..., None]).abs()
        window = memory.mask & (distance <= self.half_width)
        sigma = self.half_width // 2
        gaussian = torch.exp(-(distance**2) / (2 * sigma**2))
        weights = (masked_softmax(scores, window) * gaussian).to(scores.dtype)
        return weights @ memory.value, weights


@wrong(
    'subtracts the largest score of the whole row: 0 / 0 if the scores in the window are far below it',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'softmax in the window underflows',
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts.

    Args:
        query_dim: width D of a query.
        hidden_dim: width of the network that predicts the position.
        half_width: w, a whole number of tokens, at least 1.
    """

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        precise = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
        predicted = memory.mask.sum(dim=-1) * torch.sigmoid(logit.to(precise))
        places = torch.arange(scores.shape[-1], device=scores.device)
        distance = (places - predicted[..., None]).abs()
        window = memory.mask & (distance <= self.half_width)
        gaussian = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True)) * window
        soft = powers / powers.sum(dim=-1, keepdim=True)
        weights = (soft * gaussian).to(scores.dtype)
        return weights @ memory.value, weights


@wrong(
    'writes minus infinity into the scores that it was given',
    'Do not change the inputs.',
    'changes the scores in place',
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts.

    Args:
        query_dim: width D of a query.
        hidden_dim: width of the network that predicts the position.
        half_width: w, a whole number of tokens, at least 1.
    """

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        precise = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
        predicted = memory.mask.sum(dim=-1) * torch.sigmoid(logit.to(precise))
        places = torch.arange(scores.shape[-1], device=scores.device)
        distance = (places - predicted[..., None]).abs()
        window = memory.mask & (distance <= self.half_width)
        gaussian = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        soft = scores.masked_fill_(~window, float("-inf")).softmax(dim=-1)
        weights = (soft * gaussian).to(scores.dtype)
        return weights @ memory.value, weights


@wrong(
    'leaves out the positions that are exactly w away',
    'In the method *local-p*, each query predicts a position $p_t$ and attends only to the source positions that are at most $w$ away from it:',
    '< instead of <= at the edge of the window',
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts.

    Args:
        query_dim: width D of a query.
        hidden_dim: width of the network that predicts the position.
        half_width: w, a whole number of tokens, at least 1.
    """

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        precise = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
        predicted = memory.mask.sum(dim=-1) * torch.sigmoid(logit.to(precise))
        places = torch.arange(scores.shape[-1], device=scores.device)
        distance = (places - predicted[..., None]).abs()
        window = memory.mask & (distance < self.half_width)
        gaussian = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = (masked_softmax(scores, window) * gaussian).to(scores.dtype)
        return weights @ memory.value, weights


@wrong(
    'limits the predicted position to the last token, S - 1',
    'p_t = S\\, \\sigma\\big(u^\\top \\tanh(W h_t)\\big), \\qquad',
    'predicted position limited to S - 1',
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts.

    Args:
        query_dim: width D of a query.
        hidden_dim: width of the network that predicts the position.
        half_width: w, a whole number of tokens, at least 1.
    """

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        precise = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
        predicted = memory.mask.sum(dim=-1) * torch.sigmoid(logit.to(precise))
        # positions count from 0, so the last one is S - 1
        predicted = torch.minimum(predicted, memory.mask.sum(dim=-1) - 1.0)
        places = torch.arange(scores.shape[-1], device=scores.device)
        distance = (places - predicted[..., None]).abs()
        window = memory.mask & (distance <= self.half_width)
        gaussian = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = (masked_softmax(scores, window) * gaussian).to(scores.dtype)
        return weights @ memory.value, weights


@wrong(
    'detaches the predicted position, so that its network never learns',
    'Only the Gaussian gives $p_t$ a gradient.',
    'no gradient for the predicted position',
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts.

    Args:
        query_dim: width D of a query.
        hidden_dim: width of the network that predicts the position.
        half_width: w, a whole number of tokens, at least 1.
    """

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        with torch.no_grad():  # positions are counted, not learned
            precise = torch.promote_types(query.dtype, torch.float32)
            logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
            predicted = memory.mask.sum(dim=-1) * torch.sigmoid(logit.to(precise))
        places = torch.arange(scores.shape[-1], device=scores.device)
        distance = (places - predicted[..., None]).abs()
        window = memory.mask & (distance <= self.half_width)
        gaussian = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = (masked_softmax(scores, window) * gaussian).to(scores.dtype)
        return weights @ memory.value, weights


@wrong(
    'centres the window on the argument position if it gets one',
    'You do not need the argument `position`, which is for windows that move by one token at each step.',
    'position used instead of the predicted one',
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts.

    Args:
        query_dim: width D of a query.
        hidden_dim: width of the network that predicts the position.
        half_width: w, a whole number of tokens, at least 1.
    """

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        precise = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
        predicted = memory.mask.sum(dim=-1) * torch.sigmoid(logit.to(precise))
        if position is not None:
            predicted = torch.zeros_like(predicted) + position
        places = torch.arange(scores.shape[-1], device=scores.device)
        distance = (places - predicted[..., None]).abs()
        window = memory.mask & (distance <= self.half_width)
        gaussian = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = (masked_softmax(scores, window) * gaussian).to(scores.dtype)
        return weights @ memory.value, weights
