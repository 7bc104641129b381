import math

import torch
import torch.nn.functional as F
from torch import nn
from blind import right, wrong

from attention_course.tasks.core import BOS, EOS, PAD


@right("log-softmax and a mean written out, gradient as one real vector")
def train_step(model, optimizer, batch, clip_norm):
    parameters = list(model.parameters())
    for parameter in parameters:
        parameter.grad = None
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    log_p = logits.log_softmax(dim=-1)
    real = batch.target_out != PAD
    found = log_p.gather(-1, batch.target_out.unsqueeze(-1)).squeeze(-1)
    loss = -found[real].mean()
    loss.backward()
    gradients = [p.grad for p in parameters if p.grad is not None]
    length = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    if length > clip_norm:
        for gradient in gradients:
            gradient.mul_(clip_norm / length)
    optimizer.step()
    return loss.detach()


@right("torch.autograd.grad instead of backward; the gradients are stored by hand")
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad(set_to_none=True)
    model.zero_grad(set_to_none=True)
    trained = [p for p in model.parameters() if p.requires_grad]
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.transpose(1, 2), batch.target_out, ignore_index=PAD, reduction="mean"
    )
    for p, gradient in zip(trained, torch.autograd.grad(loss, trained, allow_unused=True)):
        p.grad = gradient
    nn.utils.clip_grad_norm_(trained, max_norm=clip_norm)
    optimizer.step()
    return loss.item()


@right("sentence by sentence: sums of losses, divided by the number of all tokens")
def train_step(model, optimizer, batch, clip_norm):
    model.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total, count = 0.0, 0
    for row, gold in zip(logits, batch.target_out):
        keep = gold.ne(PAD).nonzero()[:, 0]
        total = total + F.cross_entropy(row[keep], gold[keep], reduction="sum")
        count += len(keep)
    loss = total / count
    loss.backward()
    squares = [p.grad.square().sum() for p in model.parameters() if p.grad is not None]
    factor = (clip_norm / torch.stack(squares).sum().sqrt()).clamp(max=1)
    for p in model.parameters():
        if p.grad is not None:
            p.grad *= factor
    optimizer.step()
    return loss.item()


@right("nll_loss on flattened axes, gradients dropped before and after")
def train_step(model, optimizer, batch, clip_norm, ignore=PAD):
    parameters = tuple(model.parameters())
    model.zero_grad(set_to_none=True)
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    log_p = F.log_softmax(logits, dim=2).flatten(0, 1)
    loss = F.nll_loss(log_p, batch.target_out.flatten(), ignore_index=ignore)
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, clip_norm, norm_type=2.0)
    optimizer.step()
    model.zero_grad(set_to_none=True)
    return loss.detach().clone()


@wrong(
    "never clears the gradients: those of earlier steps are added",
    "The parameters may still hold gradients from earlier steps. Do not let them count.",
    "gradients never cleared",
)
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "averages over padding, too, which is wrong when the targets have different lengths",
    "Compute the loss, which is the mean over all tokens that are not padding:",
    "padding counts in the loss",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "clips after the optimizer's step, so a long gradient is used in full length",
    "Take the gradients of all parameters as one long vector, and shorten this vector to the length `clip_norm` if it is longer. Then make one step of the optimizer.",
    "clipping comes after the step",
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
    return loss.detach()


@wrong(
    "clears the gradients only after its step: right in a loop, but gradients that are there before the first call count",
    "The parameters may still hold gradients from earlier steps. Do not let them count.",
    "cleared too late: leftovers of others still count",
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
    return loss.detach()


@wrong(
    "puts the model into train mode: a model in eval mode gets dropout and another mode",
    "model: updated in place; keep its mode (train or eval).",
    "switches the model to train mode",
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
    return loss.detach()


@wrong(
    "logarithm of a softmax with a small number added: with logits hundreds apart the loss stops at 20.7 and the gradient is 0",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "log(softmax + eps) instead of log_softmax",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    p = logits.softmax(dim=-1).gather(-1, batch.target_out[..., None])[..., 0]
    real = batch.target_out != PAD
    loss = -(p[real] + 1e-9).log().sum() / real.sum()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "view raises a RuntimeError if a model returns logits (B, T, V) that are not contiguous, such as a transposed tensor",
    "It returns logits (B, T, V) and weights.",
    "view needs contiguous logits",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.view(-1, logits.size(-1)), batch.target_out.reshape(-1), ignore_index=PAD
    )
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "gives every gradient the length clip_norm, also a shorter one (Adam, which ignores the scale, hides it)",
    "Take the gradients of all parameters as one long vector, and shorten this vector to the length `clip_norm` if it is longer.",
    "short gradients are lengthened",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    length = torch.cat([g.flatten() for g in gradients]).norm()
    for g in gradients:
        g.mul_(clip_norm / length.clamp(min=1e-12))
    optimizer.step()
    return loss.detach()


@wrong(
    "shortens the gradients of each of the optimizer's groups by itself: the same for one group, too long a vector for two",
    "Take the gradients of all parameters as one long vector, and shorten this vector to the length `clip_norm` if it is longer.",
    "clips each parameter group separately",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    for group in optimizer.param_groups:
        nn.utils.clip_grad_norm_(group["params"], clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "averages over each sentence and then over the sentences: the same only if all targets are equally long",
    "Compute the loss, which is the mean over all tokens that are not padding:",
    "mean of the sentences' means",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    each = F.cross_entropy(
        logits.transpose(1, 2), batch.target_out, ignore_index=PAD, reduction="none"
    )  # (B, T), 0 for padding
    real = (batch.target_out != PAD).sum(dim=1)
    loss = (each.sum(dim=1) / real).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()
