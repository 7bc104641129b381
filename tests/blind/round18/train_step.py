import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import EOS, PAD
from blind import right, wrong


@right("cross-entropy with its axes moved, not flattened; returns a float")
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(logits.mT, batch.target_out, ignore_index=PAD)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@right("autograd.grad instead of backward, and one long vector in float64")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    real = batch.target_out != PAD
    log_probs = torch.log_softmax(logits[real].double(), dim=-1)
    said = log_probs.gather(-1, batch.target_out[real].long().unsqueeze(-1))
    loss = -said.mean()
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss, parameters)
    vector = torch.cat([gradient.reshape(-1).double() for gradient in gradients])
    length = torch.linalg.vector_norm(vector)
    if length > clip_norm:
        vector = vector * (clip_norm / length)
    pieces = vector.split([p.numel() for p in parameters])
    for parameter, piece in zip(parameters, pieces):
        parameter.grad = piece.view(parameter.shape).to(parameter.dtype)
    optimizer.step()
    return loss.detach().to(logits.dtype)


@right("loops over sentences, takes the gradient of the sum and divides it by N")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total, count = 0.0, 0
    for scores, ids in zip(logits.double(), batch.target_out.long()):
        places = (ids != PAD).nonzero()[:, 0]
        picked = scores[places, ids[places]]
        total = total + (scores[places].logsumexp(dim=-1) - picked).sum()
        count += len(places)
    for parameter in model.parameters():
        parameter.grad = None
    total.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    squares = 0.0
    for gradient in gradients:
        gradient /= count
        squares += gradient.double().square().sum().item()
    if squares**0.5 > clip_norm:
        for gradient in gradients:
            gradient *= clip_norm / squares**0.5
    optimizer.step()
    return total.item() / count


@right("one-hot targets in an einsum; zeroes gradients in place after the forward pass")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    chosen = F.one_hot(batch.target_out.long(), logits.shape[-1]).double()
    weight = batch.target_out.ne(PAD).double()
    weight = weight / weight.sum()
    log_probs = logits.double() - logits.double().logsumexp(-1, keepdim=True)
    loss = -torch.einsum("btv,btv,bt->", log_probs, chosen, weight)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norms = torch.stack([gradient.double().norm() for gradient in gradients])
    factor = (clip_norm / norms.norm()).clamp(max=1.0)
    for gradient in gradients:
        gradient.copy_(gradient * factor)
    optimizer.step()
    return loss.detach().to(logits.dtype)


@wrong(
    "clips after the optimizer's step, when it is too late",
    breaks="Then make one step of the optimizer.",
    name="clipped after the step",
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
    "clips each parameter's gradient by itself",
    breaks="Take the gradients of all parameters as one long vector, and scale this vector"
    " down to the Euclidean norm `clip_norm` if its norm is larger.",
    name="one norm per parameter",
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
    "leaves EOS out of the loss, as if it were padding",
    breaks="Compute the loss, which is the mean over all tokens that are not padding:",
    name="EOS does not count",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    ids = batch.target_out.masked_fill(batch.target_out == EOS, PAD)
    loss = F.cross_entropy(logits.flatten(0, 1), ids.flatten(), ignore_index=PAD)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "scales every gradient to the norm clip_norm, short ones as well",
    breaks="Take the gradients of all parameters as one long vector, and scale this vector"
    " down to the Euclidean norm `clip_norm` if its norm is larger.",
    name="short gradients are made longer",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    for gradient in gradients:
        gradient.mul_(clip_norm / norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "takes the mean of each sentence, then the mean over the sentences",
    breaks="Compute the loss, which is the mean over all tokens that are not padding:",
    name="every sentence counts the same",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    costs = F.cross_entropy(
        logits.mT, batch.target_out, ignore_index=PAD, reduction="none"
    )
    loss = (costs.sum(dim=1) / (batch.target_out != PAD).sum(dim=1)).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "computes the loss again after the update, and returns that one",
    breaks="The loss before the update, in nats per token: a number or a detached tensor.",
    name="the loss after the update",
)
def train_step(model, optimizer, batch, clip_norm):
    def cost():
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        return F.cross_entropy(
            logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
        )

    optimizer.zero_grad()
    cost().backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    with torch.no_grad():
        return cost()


@wrong(
    "clears the gradients at the end of a step, so those from before its first call count",
    breaks="The parameters may still hold gradients from earlier steps. Do not let these"
    " old gradients count.",
    name="old gradients count in the first step",
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
    "puts the model into train mode for the step, and then back",
    breaks="model: updated in place; do not change its mode (train or eval), not even for"
    " one call.",
    name="trains in train mode although the model is in eval mode",
)
def train_step(model, optimizer, batch, clip_norm):
    mode = model.training
    model.train()
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    model.train(mode)
    return loss.detach()


@wrong(
    "takes the logarithm of a softmax, which is infinite for improbable tokens",
    breaks="Your code must work for all lengths and all numbers of sentences from 1 up,"
    " for large and for small numbers, in train mode and in eval mode.",
    name="log of a softmax that has become zero",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    log_probs = torch.softmax(logits, dim=-1).log()
    loss = F.nll_loss(log_probs.mT, batch.target_out, ignore_index=PAD)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "returns the loss with its whole graph",
    breaks="The loss before the update, in nats per token: a number or a detached tensor.",
    name="the loss is not detached",
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
