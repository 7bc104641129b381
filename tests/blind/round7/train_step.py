import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import BOS, EOS, PAD
from blind import right, wrong


@right('probabilities of the right tokens gathered by hand, only where they are not padding')
def train_step(model, optimizer, batch, clip_norm):
    model.zero_grad()
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    log_probs = logits.log_softmax(dim=-1)
    picked = log_probs.gather(-1, batch.target_out.unsqueeze(-1)).squeeze(-1)
    loss = -picked[batch.target_out != PAD].mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@right('gradients from torch.autograd.grad, their length computed and shortened by hand')
def train_step(model, optimizer, batch, clip_norm):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    loss = F.cross_entropy(logits.mT, batch.target_out, ignore_index=PAD)
    parameters = [p for p in model.parameters() if p.requires_grad]
    grads = torch.autograd.grad(loss, parameters, allow_unused=True)
    length = math.sqrt(sum(float(g.square().sum()) for g in grads if g is not None))
    model.zero_grad()
    factor = clip_norm / length if length > clip_norm else 1.0
    for p, g in zip(parameters, grads):
        p.grad = None if g is None else g * factor
    optimizer.step()
    return loss.detach()


@right('a closure for the optimizer, which computes the loss and the shortened gradient')
def train_step(model, optimizer, batch, clip_norm):
    def closure():
        model.zero_grad(set_to_none=True)
        optimizer.zero_grad(set_to_none=True)
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        total = F.cross_entropy(
            logits.flatten(0, 1),
            batch.target_out.flatten(),
            ignore_index=PAD,
            reduction="sum",
        )
        loss = total / batch.target_out.ne(PAD).sum()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        return loss

    return optimizer.step(closure).detach()


@right('sum of the losses of the tokens, weighted with zero or one, and nll_loss per token')
def train_step(model, optimizer, batch, clip_norm):
    for parameter in model.parameters():
        parameter.grad = None
    logits, *_ = model(batch.source, batch.lengths, batch.target_in)
    each = F.nll_loss(
        F.log_softmax(logits, dim=-1).transpose(1, 2),
        batch.target_out,
        reduction="none",
    )
    real = (batch.target_out != PAD).to(each.dtype)
    loss = (each * real).sum() / real.sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=clip_norm)
    optimizer.step()
    return float(loss.detach())


@wrong(
    'gradients are never reset: from the second step on the old ones are added',
    'Gradients that were left in the parameters before do not count.',
    'zero_grad forgotten',
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
    "the gradient is shortened after the optimizer's step, when it is too late",
    'Then compute the gradient, shorten it to the length `clip_norm` if it is longer, and make one step of the optimizer.',
    'clipped after the step',
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
    'padding counts in the loss: wrong for targets of different lengths',
    'The loss is the mean over all tokens that are not padding,',
    'padding counted in the loss',
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
    "mean over the sentences' means: short sentences count too much where lengths differ",
    'The loss is the mean over all tokens that are not padding,',
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
    'puts the model into training mode, in which it stays: wrong for a model in evaluation mode',
    'model: changed in place; its mode (training or evaluation) stays.',
    "changes the model's mode",
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
    'the gradient of each parameter is shortened by itself: the length of all together can be larger than clip_norm, and the direction changes',
    'Then compute the gradient, shorten it to the length `clip_norm` if it is longer, and make one step of the optimizer.',
    'clips each parameter separately',
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
    "padding in target_out is overwritten with -100: the caller's batch changes",
    'What comes in stays as it is, and what goes out has its dtype and its device.',
    'changes the batch in place',
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    gold = batch.target_out.masked_fill_(batch.target_out == PAD, -100)
    loss = F.cross_entropy(logits.flatten(0, 1), gold.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    'gradients are reset at the end instead of at the beginning: right in a loop, wrong if somebody left gradients before the first step',
    'Gradients that were left in the parameters before do not count.',
    'gradients reset only after the step',
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
    'the gradient is that of the sum, not of the mean; as long as both are longer than clip_norm, the shortened gradient is the same',
    'The loss is the mean over all tokens that are not padding,',
    'gradient of the sum, hidden by clipping',
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=PAD,
        reduction="sum",
    )
    total.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return total.detach() / (batch.target_out != PAD).sum()


@wrong(
    'the gradient always gets the length clip_norm: a shorter one is made longer',
    'Then compute the gradient, shorten it to the length `clip_norm` if it is longer, and make one step of the optimizer.',
    'short gradients are made longer',
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
    for grad in grads:
        grad.mul_(clip_norm / (length + 1e-6))
    optimizer.step()
    return loss.detach()
