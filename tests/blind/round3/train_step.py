import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import PAD
from blind import right, wrong

# ---------------------------------------------------------------- right


@right("hands the optimizer a closure that computes loss and gradient")
def train_step(model, optimizer, batch, clip_norm):
    def closure():
        optimizer.zero_grad()
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        loss = F.cross_entropy(logits.mT, batch.target_out, ignore_index=PAD)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        return loss

    return optimizer.step(closure).detach()


@right("torch.autograd.grad, and the cutting done by hand")
def train_step(model, optimizer, batch, clip_norm):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    counts = batch.target_out != PAD
    loss = F.cross_entropy(logits[counts], batch.target_out[counts])
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    length = sum((g.double() ** 2).sum() for g in gradients if g is not None) ** 0.5
    factor = min(1.0, clip_norm / max(float(length), 1e-12))
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = None if gradient is None else gradient * factor
    optimizer.step()
    return loss.item()


@right("log_softmax, gather, and a sum with weights of 0 and 1")
def train_step(model, optimizer, batch, clip_norm):
    model.zero_grad()
    logits, *_ = model(batch.source, batch.lengths, batch.target_in)
    chosen = logits.log_softmax(dim=-1).gather(2, batch.target_out.unsqueeze(2))[..., 0]
    counts = (batch.target_out != PAD).to(chosen.dtype)
    loss = -(chosen * counts).sum() / counts.sum()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=clip_norm)
    optimizer.step()
    return float(loss.detach())


@right("sentence by sentence: sums of logsumexp minus the right logit, divided once; old gradients set to None by hand")
def train_step(model, optimizer, batch, clip_norm):
    for parameter in model.parameters():
        parameter.grad = None
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total, number = 0.0, 0
    for row, wanted in zip(logits, batch.target_out):
        for logit, token in zip(row, wanted.tolist()):
            if token != PAD:
                total = total + (logit.logsumexp(dim=0) - logit[token])
                number += 1
    (total / number).backward()
    nn.utils.clip_grad_norm_(list(model.parameters()), float(clip_norm))
    optimizer.step()
    return (total / number).detach()


# ---------------------------------------------------------------- wrong


@wrong(
    "never clears the gradients",
    breaks="Gradients that somebody left in the parameters before do not count.",
    name="gradients pile up",
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
    return loss.item()


@wrong(
    "clears the gradients at the end of its own steps only",
    breaks="Gradients that somebody left in the parameters before do not count.",
    name="gradients cleared too late",
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
    "cuts the gradient after the step: harmless while gradients are short",
    breaks="Then: a gradient, cut to the length `clip_norm` if it is longer, and one step of the optimizer.",
    name="clipping after the step",
    subtle=True,
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
    "the mean of every sentence first, then the mean of the sentences: right if they are equally long",
    breaks="The loss is the mean over all tokens that are not padding",
    name="mean of means",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    each = F.cross_entropy(
        logits.mT, batch.target_out, ignore_index=PAD, reduction="none"
    )
    number = (batch.target_out != PAD).sum(dim=1)
    loss = (each.sum(dim=1) / number).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "leaves padding out of the sum, and divides by all places",
    breaks=r"N = \text{number of these tokens.}",
    name="padding counts in the denominator",
    subtle=True,
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
    "puts the model into training mode first, and leaves it there",
    breaks="its mode (training or evaluation) stays",
    name="model.train() changes the mode",
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
    "brings every gradient to the length clip_norm, short ones as well",
    breaks="a gradient, cut to the length `clip_norm` if it is longer",
    name="short gradients are stretched",
    subtle=True,
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
        g.mul_(clip_norm / (length + 1e-6))
    optimizer.step()
    return loss.item()


@wrong(
    "cuts every parameter's gradient by itself",
    breaks="a gradient, cut to the length `clip_norm` if it is longer",
    name="clipping each parameter alone",
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
    "writes -100 over the batch's padding, so that cross_entropy ignores it",
    breaks="what it was handed is unchanged",
    name="the batch is changed in place",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    batch.target_out[batch.target_out == PAD] = -100
    loss = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "computes the loss anew after the step, and returns that",
    breaks="The loss before the update, in nats per token",
    name="loss after the update",
)
def train_step(model, optimizer, batch, clip_norm):
    def loss_now():
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        return F.cross_entropy(
            logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
        )

    optimizer.zero_grad()
    loss_now().backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    with torch.no_grad():
        return loss_now()
