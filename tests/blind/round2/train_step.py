import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import PAD
from blind import right, wrong


def mean_loss(model, batch):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    return F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )


@right("as the hints have it")
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    loss = mean_loss(model, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@right("log-probabilities gathered, the cut by hand")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    real = batch.target_out.ne(PAD)
    log_p = logits.log_softmax(-1).gather(-1, batch.target_out.unsqueeze(-1))[..., 0]
    loss = -log_p[real].mean()
    for p in model.parameters():
        p.grad = None
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    length = torch.stack([g.pow(2).sum() for g in grads]).sum().sqrt()
    if length > clip_norm:
        for g in grads:
            g.mul_(clip_norm / length)
    optimizer.step()
    return loss.detach()


@right("autograd.grad instead of backward")
def train_step(model, optimizer, batch, clip_norm):
    loss = mean_loss(model, batch)
    model.zero_grad()
    params = [p for p in model.parameters() if p.requires_grad]
    for p, g in zip(params, torch.autograd.grad(loss, params, allow_unused=True)):
        p.grad = g
    nn.utils.clip_grad_norm_(params, max_norm=clip_norm)
    optimizer.step()
    return float(loss.detach())


@right("a sum over the positions, one after the other, divided by the number of tokens")
def train_step(model, optimizer, batch, clip_norm):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    total = logits.new_zeros(())
    for t in range(logits.size(1)):
        total = total + F.cross_entropy(
            logits[:, t], batch.target_out[:, t], ignore_index=PAD, reduction="sum"
        )
    loss = total / (batch.target_out != PAD).sum()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_([p for p in model.parameters()], clip_norm)
    optimizer.step()
    return loss.detach().clone()


CUT = "Then: a gradient, cut to the length `clip_norm` if it is longer, and one step of the optimizer."
LEFT = "Gradients that somebody left in the parameters before do not count."
MEAN = "The loss is the mean over all tokens that are not padding,"


@wrong("gradients are never cleared", breaks=LEFT, name="gradients add up from step to step", subtle=False)
def train_step(model, optimizer, batch, clip_norm):
    loss = mean_loss(model, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong("padding counts", breaks=MEAN, name="padding in the loss", subtle=False)
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong("cut after the step", breaks=CUT, name="clipped too late", subtle=False)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    loss = mean_loss(model, batch)
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    return loss.item()


@wrong("mean over the sentences' means", breaks=MEAN, name="short sentences weigh more", subtle=True)
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    each = F.cross_entropy(
        logits.transpose(1, 2), batch.target_out, ignore_index=PAD, reduction="none"
    )
    loss = (each.sum(1) / (batch.target_out != PAD).sum(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong("every parameter is cut on its own", breaks=CUT, name="clipped parameter by parameter", subtle=True)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    loss = mean_loss(model, batch)
    loss.backward()
    for p in model.parameters():
        nn.utils.clip_grad_norm_([p], clip_norm)
    optimizer.step()
    return loss.item()


@wrong("short gradients are stretched", breaks=CUT, name="every gradient gets the length clip_norm", subtle=True)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    loss = mean_loss(model, batch)
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    length = torch.cat([g.flatten() for g in grads]).norm()
    for g in grads:
        g.mul_(clip_norm / (length + 1e-6))
    optimizer.step()
    return loss.item()


@wrong("switches to training mode", breaks="model: changed in place; its mode (training or evaluation) stays.", name="mode changed", subtle=True)
def train_step(model, optimizer, batch, clip_norm):
    model.train()
    optimizer.zero_grad()
    loss = mean_loss(model, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong("clears after the step, not before", breaks=LEFT, name="what was left before the first step counts", subtle=True)
def train_step(model, optimizer, batch, clip_norm):
    loss = mean_loss(model, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


@wrong("clip_norm 0 is taken for: do not cut", breaks="clip_norm: longest allowed gradient.", name="clip_norm of 0 means no limit", subtle=True)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    loss = mean_loss(model, batch)
    loss.backward()
    if clip_norm:
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong("hands back the loss with its graph", breaks="The loss before the update, in nats per token: a number, or a tensor without a\n        gradient (`detach`).", name="not detached", subtle=True)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    loss = mean_loss(model, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss
