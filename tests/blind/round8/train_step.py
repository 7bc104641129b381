import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import BOS, EOS, PAD
from blind import right, wrong


@right("log-softmax and gather by hand, length of the gradient by hand")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    real = batch.target_out != PAD
    logp = logits.log_softmax(-1).gather(-1, batch.target_out[..., None])[..., 0]
    loss = -logp[real].sum() / real.sum()
    model.zero_grad()
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    length = math.sqrt(sum(float(g.double().pow(2).sum()) for g in grads))
    if length > clip_norm:
        for g in grads:
            g *= clip_norm / length
    optimizer.step()
    return loss.item()


@right("gradients from torch.autograd.grad, put into .grad afterwards")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(logits.mT, batch.target_out, ignore_index=PAD)
    params = [p for p in model.parameters() if p.requires_grad]
    grads = torch.autograd.grad(loss, params, allow_unused=True)
    for p, g in zip(params, grads):
        p.grad = g
    nn.utils.clip_grad_norm_(params, clip_norm)
    optimizer.step()
    return loss.detach()


@right("everything in a closure that the optimizer calls")
def train_step(model, optimizer, batch, clip_norm):
    def closure():
        optimizer.zero_grad()
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        keep = batch.target_out.ne(PAD)
        loss = F.cross_entropy(logits[keep], batch.target_out[keep])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=clip_norm)
        return loss

    return optimizer.step(closure).detach()


@right("sum and number of tokens separately, old gradients deleted one by one")
def train_step(model, optimizer, batch, clip_norm):
    for parameter in model.parameters():
        parameter.grad = None
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    each = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), reduction="none"
    )
    real = (batch.target_out != PAD).flatten().to(each.dtype)
    loss = torch.dot(each, real) / real.sum()
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    length = torch.linalg.vector_norm(torch.cat([g.flatten() for g in grads]))
    factor = (clip_norm / (length + 1e-12)).clamp(max=1.0)
    for grad in grads:
        grad.mul_(factor)
    optimizer.step()
    return float(loss.detach())


@wrong(
    "old gradients are never removed: from the second step on (or with gradients left over) they are added",
    "Gradients that the parameters still hold from earlier steps must not count.",
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
    return loss.detach()


@wrong(
    "padding counts: the mean is taken over all B x T positions; wrong for targets of different lengths",
    "The loss is the mean over all tokens that are not padding,",
    "padding counted in the loss",
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
    "shortens the gradient after the step, when it is too late; wrong whenever the gradient is longer than clip_norm",
    "Then compute the gradient, shorten it to the length `clip_norm` if it is longer, and make one step of the optimizer.",
    "clipping after the optimizer's step",
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
    "switches to training mode and leaves the model there: a model in evaluation mode comes back in another mode (and its dropout was active)",
    "model: changed in place; its mode (training or evaluation) stays.",
    "mode of the model changed",
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
    "removes the gradients after the step and not before: gradients that stand there at the first call count",
    "Gradients that the parameters still hold from earlier steps must not count.",
    "zero_grad only after the step",
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
    "scales the gradient to the length clip_norm in any case: a shorter gradient is made longer",
    "Then compute the gradient, shorten it to the length `clip_norm` if it is longer, and make one step of the optimizer.",
    "short gradients are lengthened",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    length = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_(clip_norm / length.clamp(min=1e-12))
    optimizer.step()
    return loss.detach()


@wrong(
    "mean over each sentence first, then over the sentences: the same for targets of equal length, wrong for different lengths",
    "The loss is the mean over all tokens that are not padding,",
    "mean of the sentences' means",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    each = F.cross_entropy(
        logits.mT, batch.target_out, ignore_index=PAD, reduction="none"
    )
    loss = (each.sum(dim=1) / (batch.target_out != PAD).sum(dim=1)).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "clips only the parameters of the optimizer's first group: with two groups the whole gradient is longer than clip_norm and the second group is not shortened",
    "Then compute the gradient, shorten it to the length `clip_norm` if it is longer, and make one step of the optimizer.",
    "only one parameter group clipped",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "clips every parameter by itself: right while the whole gradient is shorter than clip_norm (or there is one parameter), otherwise the whole is longer than clip_norm and points elsewhere",
    "Then compute the gradient, shorten it to the length `clip_norm` if it is longer, and make one step of the optimizer.",
    "each parameter clipped separately",
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
    return loss.detach()


@wrong(
    "replaces PAD by -100 in the batch's own target_out: the batch is damaged for the next user (its numbers of the first step are right)",
    "Your code does not change its inputs, and what it returns has the dtype of the inputs and is on their device.",
    "batch changed in place",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    target = batch.target_out.flatten()
    target[target == PAD] = -100
    loss = F.cross_entropy(logits.flatten(0, 1), target)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()
