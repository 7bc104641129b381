import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import BOS, EOS, PAD

from blind import right, wrong

MEAN = "Compute the loss, which is the mean over all tokens that are not padding:"
VECTOR = "Take the gradients of all parameters as one long vector, and scale this vector down to the Euclidean norm `clip_norm` if its norm is larger."
STEP = "Then make one step of the optimizer."
OLD = "Do not let these old gradients count."
MODE = "model: updated in place; keep its mode (train or eval)."
RETURNS = "The loss before the update, in nats per token: a number or a detached tensor."
LARGE = "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode."


# wrong, plain


@wrong(
    "never clears the gradients, so they add up from step to step",
    OLD,
    "zero_grad forgotten",
)
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "padding counts in the loss",
    MEAN,
    "padding not left out",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "shortens the gradients after the step, when it is too late",
    VECTOR,
    "clipped after the step",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    return loss.item()


# wrong, subtle


@wrong(
    "clears the gradients after its own step only: those that it finds count",
    OLD,
    "gradients cleared at the end, not at the beginning",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


@wrong(
    "shortens the gradient of each parameter by itself",
    VECTOR,
    "each parameter clipped by itself",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    for parameter in model.parameters():
        nn.utils.clip_grad_norm_(parameter, clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "gives every gradient the norm clip_norm, a shorter one as well",
    VECTOR,
    "short gradients scaled up",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.cat([grad.flatten() for grad in grads]).norm()
    for grad in grads:
        grad.mul_(clip_norm / (norm + 1e-6))
    optimizer.step()
    return loss.item()


@wrong(
    "takes the mean over each sentence, then over the sentences",
    MEAN,
    "mean of the sentences' means",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    losses = F.cross_entropy(
        logits.transpose(1, 2), batch.target_out, ignore_index=PAD, reduction="none"
    )  # (B, T)
    counts = (batch.target_out != PAD).sum(dim=1)
    loss = (losses.sum(dim=1) / counts).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "takes the logarithm of the softmax plus 1e-9: no token costs more than 20.7 nats",
    LARGE,
    "log of a probability that has become 0",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    chances = logits.softmax(dim=-1).gather(2, batch.target_out[..., None])[..., 0]
    loss = -(chances + 1e-9).log()[batch.target_out != PAD].mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "puts the model into train mode, and leaves it there",
    MODE,
    "mode changed",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    model.train()
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "returns the loss with its graph",
    RETURNS,
    "loss not detached",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss


# right


@right("everything by hand: logsumexp, the norm in float64, a factor for each gradient")
def train_step(model, optimizer, batch, clip_norm):
    for parameter in model.parameters():
        parameter.grad = None
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    chosen = logits.gather(-1, batch.target_out.unsqueeze(-1)).squeeze(-1)
    costs = logits.logsumexp(dim=-1) - chosen
    real = batch.target_out.ne(PAD)
    loss = costs[real].sum() / real.sum()
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = math.sqrt(sum(float(grad.double().square().sum()) for grad in grads))
    if norm > clip_norm:
        for grad in grads:
            grad.mul_(clip_norm / norm)
    optimizer.step()
    return float(loss)


@right("a closure for the optimizer, which computes loss and gradients in its step")
def train_step(model, optimizer, batch, clip_norm):
    def closure():
        model.zero_grad()
        optimizer.zero_grad()
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        loss = F.cross_entropy(
            logits.transpose(1, 2), batch.target_out, ignore_index=PAD
        )
        loss.backward()
        nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=clip_norm)
        return loss

    return optimizer.step(closure).detach()


@right("asks autograd for the gradients, and puts them where the optimizer looks")
def train_step(model, optimizer, batch, clip_norm):
    model.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    log_p = logits.flatten(0, 1).log_softmax(dim=1)
    loss = F.nll_loss(log_p, batch.target_out.reshape(-1), ignore_index=PAD)
    parameters = [p for p in model.parameters() if p.requires_grad]
    for p, grad in zip(parameters, torch.autograd.grad(loss, parameters, allow_unused=True)):
        p.grad = grad
    nn.utils.clip_grad_norm_(parameters, clip_norm, norm_type=2)
    optimizer.step()
    return loss.detach()


@right("in float64, a sum over the sentences, each cut to its tokens, over the count")
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad(set_to_none=True)
    model.zero_grad(set_to_none=True)
    logits = model(batch.source, batch.lengths, batch.target_in)[0].double()
    total, count = 0.0, 0
    for row, wanted in zip(logits, batch.target_out):
        kept = wanted != PAD
        total = total + F.cross_entropy(row[kept], wanted[kept], reduction="sum")
        count += int(kept.sum())
    (total / count).backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return (total / count).item()
