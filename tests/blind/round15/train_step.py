import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import PAD
from blind import right, wrong

MEAN = "Compute the loss, which is the mean over all tokens that are not padding:"
CLIP = "Take the gradients of all parameters as one long vector, and scale this vector down to the Euclidean norm `clip_norm` if its norm is larger."


@right("log probabilities gathered, torch.autograd.grad, norm by hand")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    log_p = logits.log_softmax(-1).gather(-1, batch.target_out[..., None])[..., 0]
    loss = -log_p[batch.target_out != PAD].mean()
    for p in model.parameters():
        p.grad = None
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    squares = [float(g.double().square().sum()) for g in gradients if g is not None]
    norm = sum(squares) ** 0.5
    scale = clip_norm / norm if norm > clip_norm else 1.0
    for p, g in zip(parameters, gradients):
        p.grad = None if g is None else g * scale
    optimizer.step()
    return loss.item()


@right("classes on axis 1, total norm and clipping in two calls")
def train_step(model, optimizer, batch, clip_norm):
    model.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(logits.mT, batch.target_out, ignore_index=PAD)
    loss.backward()
    parameters = [p for p in model.parameters() if p.grad is not None]
    total = nn.utils.get_total_norm([p.grad for p in parameters])
    nn.utils.clip_grads_with_norm_(parameters, clip_norm, total)
    optimizer.step()
    return loss.detach()


@right("selects the real tokens first; one long vector of gradients")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    real = batch.target_out.ne(PAD)
    rows, gold = logits[real], batch.target_out[real]
    loss = F.nll_loss(F.log_softmax(rows, dim=-1), gold, reduction="sum") / len(gold)
    model.zero_grad(set_to_none=True)
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.cat([g.flatten() for g in gradients]).double().norm().item()
    if norm > clip_norm:
        for g in gradients:
            g.mul_(clip_norm / norm)
    optimizer.step()
    return float(loss)


@right("everything in a closure for the optimizer")
def train_step(model, optimizer, batch, clip_norm):
    losses = []

    def closure():
        model.zero_grad()
        logits = model(batch.source, batch.lengths, batch.target_in)[0]
        loss = F.cross_entropy(
            logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
        )
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        losses.append(loss.detach())
        return loss

    optimizer.step(closure)
    return losses[0]


def loss_of(model, batch):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    return F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )


@wrong(
    "removes the gradients after each step, but not before the first one",
    breaks="Do not let these old gradients count.",
    name="gradients zeroed too late",
)
def train_step(model, optimizer, batch, clip_norm):
    loss = loss_of(model, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


@wrong(
    "clips when the step has been made",
    breaks="Then make one step of the optimizer.",
    name="clipped after the step",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    return loss.item()


@wrong(
    "clips the gradient of each parameter by itself",
    breaks=CLIP,
    name="one norm per parameter",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    for p in model.parameters():
        nn.utils.clip_grad_norm_([p], clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "divides by B times T",
    breaks=MEAN,
    name="padding counted in the mean",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.mT, batch.target_out, ignore_index=PAD, reduction="none"
    ).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "a mean per sentence, then the mean of the sentences; right for equal lengths",
    breaks=MEAN,
    name="mean of means",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    losses = F.cross_entropy(
        logits.mT, batch.target_out, ignore_index=PAD, reduction="none"
    )
    loss = (losses.sum(1) / (batch.target_out != PAD).sum(1)).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "puts the model into train mode for the call, and back afterwards",
    breaks="model: updated in place; do not change its mode (train or eval), not even for one call.",
    name="mode changed",
)
def train_step(model, optimizer, batch, clip_norm):
    mode = model.training
    model.train()
    optimizer.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    model.train(mode)
    return loss.item()


@wrong(
    "computes the loss to return once more after the step",
    breaks="The loss before the update, in nats per token: a number or a detached tensor.",
    name="loss after the update",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    loss_of(model, batch).backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    with torch.no_grad():
        return loss_of(model, batch).item()


@wrong(
    "stretches short gradients to clip_norm as well",
    breaks=CLIP,
    name="gradient always scaled",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.stack([g.norm() for g in gradients]).norm()
    for g in gradients:
        g.mul_(clip_norm / norm)
    optimizer.step()
    return loss.item()


@wrong(
    "logarithm of a probability that may be rounded to zero",
    breaks="Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    name="log of a softmax",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    p = logits.softmax(-1).gather(-1, batch.target_out[..., None])[..., 0]
    loss = -p[batch.target_out != PAD].log().mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "clips the parameters of the optimizer's first group only",
    breaks=CLIP,
    name="other parameter groups not clipped",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], clip_norm)
    optimizer.step()
    return loss.item()
