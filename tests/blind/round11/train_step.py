import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import PAD

from blind import right, wrong


@right("autograd.grad instead of backward, and clips by hand before it sets the gradients")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = batch.target_out != PAD
    loss = F.cross_entropy(logits[keep], batch.target_out[keep])
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    square = sum(float(g.double().square().sum()) for g in gradients if g is not None)
    norm = square**0.5
    for parameter, gradient in zip(parameters, gradients):
        if gradient is not None and norm > clip_norm:
            gradient = gradient * (clip_norm / norm)
        parameter.grad = gradient
    optimizer.step()
    return loss.item()


@right("class axis moved to the second place; drops the old gradients parameter by parameter")
def train_step(model, optimizer, batch, clip_norm):
    for parameter in model.parameters():
        parameter.grad = None
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    loss = F.cross_entropy(
        logits.permute(0, 2, 1), batch.target_out, ignore_index=PAD, reduction="mean"
    )
    loss.backward()
    nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=clip_norm, norm_type=2.0)
    optimizer.step()
    return loss.detach()


def _nats(logits, targets):
    """The negative log-probability of each target, by hand."""
    chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return logits.logsumexp(dim=-1) - chosen


@right("gives the optimizer a closure that does all of it")
def train_step(model, optimizer, batch, clip_norm):
    def closure():
        optimizer.zero_grad()
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        nats = _nats(logits, batch.target_out)
        loss = nats.masked_select(batch.target_out.ne(PAD)).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        return loss

    return optimizer.step(closure).detach()


@right("one long vector of gradients, for real; nll_loss; old gradients dropped right before backward")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    log_probabilities = logits.log_softmax(dim=-1).flatten(0, 1)
    loss = F.nll_loss(log_probabilities, batch.target_out.flatten(), ignore_index=PAD)
    model.zero_grad()
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    vector = torch.cat([gradient.reshape(-1) for gradient in gradients])
    norm = torch.linalg.vector_norm(vector).item()
    if norm > clip_norm:
        for gradient in gradients:
            gradient.mul_(clip_norm / norm)
    optimizer.step()
    return float(loss)


@wrong(
    "adds to the gradients of earlier steps",
    "Do not let these old gradients count.",
    "no zero_grad",
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
    "clips the gradient of each parameter by itself",
    "Take the gradients of all parameters as one long vector, and scale this vector down to the Euclidean norm `clip_norm` if its norm is larger.",
    "each parameter clipped by itself",
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
    "takes the mean of each sentence first, and then the mean over the sentences",
    "Compute the loss, which is the mean over all tokens that are not padding:",
    "mean of the sentences' means",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    nats = F.cross_entropy(
        logits.transpose(1, 2), batch.target_out, ignore_index=PAD, reduction="none"
    )
    loss = (nats.sum(dim=1) / (batch.target_out != PAD).sum(dim=1)).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "puts the model into train mode and leaves it there",
    "model: updated in place; keep its mode (train or eval).",
    "mode changed",
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
    "scales every gradient to the norm clip_norm, also a shorter one",
    "Take the gradients of all parameters as one long vector, and scale this vector down to the Euclidean norm `clip_norm` if its norm is larger.",
    "short gradients made longer",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    for gradient in gradients:
        gradient *= clip_norm / norm
    optimizer.step()
    return loss.item()


@wrong(
    "writes -100 over the padding of the batch's own targets",
    "Do not change the inputs.",
    "targets changed in place",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    expected = batch.target_out.flatten()
    expected[expected == PAD] = -100  # what cross_entropy ignores
    loss = F.cross_entropy(logits.flatten(0, 1), expected)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "returns the loss with its graph",
    "The loss before the update, in nats per token: a number or a detached tensor.",
    "loss not detached",
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


@wrong(
    "drops the gradients at the end of a step, so only those of its own steps are gone: those that the first call finds still count",
    "The parameters may still hold gradients from earlier steps.",
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
    return loss.item()


@wrong(
    "clips the optimizer's first group of parameters only",
    "Take the gradients of all parameters as one long vector, and scale this vector down to the Euclidean norm `clip_norm` if its norm is larger.",
    "only the first parameter group clipped",
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
    return loss.item()


@wrong(
    "leaves padding out with class weights that are always float32 on the CPU: an error for a model in another dtype or on another device",
    "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU.",
    "float32 on the CPU built in",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    importance = torch.ones(logits.shape[-1], dtype=torch.float32, device="cpu")
    importance[PAD] = 0.0
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), weight=importance
    )
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()
