import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import PAD
from blind import right, wrong

LOSS = "Compute the loss, which is the mean over all tokens that are not padding:"
LONG = "Take the gradients of all parameters as one long vector, and scale this vector down to the Euclidean norm `clip_norm` if its norm is larger."
STEP = "Then make one step of the optimizer."
OLD = "The parameters may still hold gradients from earlier steps."
OLD2 = "Do not let these old gradients count."
MODE = "model: updated in place; do not change its mode (train or eval), not even"
RETURN = "The loss before the update, in nats per token: a number or a detached tensor."
INPUTS = "Do not change the inputs."
VIEW = "An input may be a view of another tensor, such as a transpose or a slice, so do not rely on its layout in memory."


@right("log_softmax, gather and a mean over a mask in float64; gradients set to None first; clipped by hand")
def train_step(model, optimizer, batch, clip_norm):
    for p in model.parameters():
        p.grad = None
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    log_p = logits.double().log_softmax(-1).gather(-1, batch.target_out[..., None]).squeeze(-1)
    real = batch.target_out != PAD
    loss = -(log_p * real).sum() / real.sum()
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = sum((g.double() ** 2).sum() for g in grads) ** 0.5
    if norm > clip_norm:
        for g in grads:
            g.mul_(float(clip_norm / norm))
    optimizer.step()
    return loss.item()


@right("torch.autograd.grad returns the gradients, which replace the old ones")
def train_step(model, optimizer, batch, clip_norm):
    parameters = [p for p in model.parameters() if p.requires_grad]
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(logits.movedim(-1, 1), batch.target_out, ignore_index=PAD)
    grads = torch.autograd.grad(loss, parameters, allow_unused=True)
    for p, g in zip(parameters, grads):
        p.grad = g
    nn.utils.clip_grad_norm_(parameters, clip_norm)
    optimizer.step()
    return loss.detach()


@right("hands the optimizer a closure that clears, computes and clips the gradients")
def train_step(model, optimizer, batch, clip_norm):
    losses = []

    def closure():
        optimizer.zero_grad()
        logits = model(batch.source, batch.lengths, batch.target_in)[0]
        real = batch.target_out.ne(PAD)
        loss = F.cross_entropy(logits[real], batch.target_out[real])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        losses.append(loss.detach().clone())
        return loss

    optimizer.step(closure)
    return losses[0]


@right("literally one long vector: concatenates the gradients, scales it and cuts it up again")
def train_step(model, optimizer, batch, clip_norm):
    model.zero_grad(set_to_none=True)
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    terms = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD, reduction="sum"
    )
    loss = terms / (batch.target_out != PAD).sum()
    loss.backward()
    moved = [p for p in model.parameters() if p.grad is not None]
    vector = torch.cat([p.grad.flatten() for p in moved]).double()
    vector = vector * torch.clamp(clip_norm / vector.norm().clamp(min=1e-300), max=1.0)
    for p, part in zip(moved, vector.split([p.numel() for p in moved])):
        p.grad = part.reshape(p.shape).to(p.dtype)
    optimizer.step()
    return float(loss)


def usual_loss(model, batch):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    return F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD)


def finish(model, optimizer, loss, clip_norm):
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong("counts padding in the loss", breaks=LOSS, name="padding counted in the loss")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten())
    return finish(model, optimizer, loss, clip_norm)


@wrong("clips after the step", breaks=LONG, name="clipped too late")
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    loss = usual_loss(model, batch)
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    return loss.detach()


@wrong("clears the gradients after its step, not before: gradients that are there at the first call count",
       breaks=OLD2, name="gradients cleared only afterwards")
def train_step(model, optimizer, batch, clip_norm):
    loss = usual_loss(model, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


@wrong("takes the mean per sentence, then the mean of these means: wrong for sentences of different lengths",
       breaks=LOSS, name="mean of the sentences' means")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    terms = F.cross_entropy(logits.mT, batch.target_out, ignore_index=PAD, reduction="none")
    loss = (terms.sum(1) / (batch.target_out != PAD).sum(1)).mean()
    return finish(model, optimizer, loss, clip_norm)


@wrong("clips the gradient of each parameter by itself", breaks=LONG, name="each parameter clipped by itself")
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    loss = usual_loss(model, batch)
    loss.backward()
    for p in model.parameters():
        nn.utils.clip_grad_norm_([p], clip_norm)
    optimizer.step()
    return loss.detach()


@wrong("scales every gradient to the norm clip_norm, also a shorter one", breaks=LONG, name="short gradients made longer")
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    loss = usual_loss(model, batch)
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_(clip_norm / (norm + 1e-6))
    optimizer.step()
    return loss.detach()


@wrong("switches to train mode for the call and back afterwards: dropout for a model in eval mode", breaks=MODE,
       name="train mode for one call")
def train_step(model, optimizer, batch, clip_norm):
    mode = model.training
    model.train()
    loss = usual_loss(model, batch)
    model.train(mode)
    return finish(model, optimizer, loss, clip_norm)


@wrong("returns the loss with its graph", breaks=RETURN, name="loss not detached")
def train_step(model, optimizer, batch, clip_norm):
    loss = usual_loss(model, batch)
    finish(model, optimizer, loss, clip_norm)
    return loss


@wrong("writes -100 over the padding of target_out", breaks=INPUTS, name="padding overwritten in the batch")
def train_step(model, optimizer, batch, clip_norm):
    target = batch.target_out
    target[target == PAD] = -100
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
    return finish(model, optimizer, loss, clip_norm)


@wrong("flattens target_out with view: fails if target_out is a slice of a longer table", breaks=VIEW,
       name="view of an input that is not contiguous")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(logits.flatten(0, 1), batch.target_out.view(-1), ignore_index=PAD)
    return finish(model, optimizer, loss, clip_norm)
