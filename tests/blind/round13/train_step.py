import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import PAD

from blind import right, wrong


# Right answers


@right("picks the log-probabilities with gather, and clips by hand, in float64")
def train_step(model, optimizer, batch, clip_norm):
    for parameter in model.parameters():
        parameter.grad = None
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    log_p = logits.log_softmax(dim=-1)
    picked = log_p.gather(-1, batch.target_out.unsqueeze(-1)).squeeze(-1)  # (B, T)
    real = batch.target_out.ne(PAD)
    loss = -torch.where(real, picked, torch.zeros_like(picked)).sum() / real.sum()
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    length = sum(float(g.double().pow(2).sum()) for g in gradients) ** 0.5
    if length > clip_norm:
        for g in gradients:
            g.mul_(clip_norm / length)
    optimizer.step()
    return float(loss)


@right("takes the gradients from autograd.grad, and writes them into the parameters")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.movedim(-1, 1), batch.target_out, ignore_index=PAD, reduction="sum"
    )
    loss = loss / (batch.target_out != PAD).sum()
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    vector = torch.cat([g.flatten() for g in gradients if g is not None])
    length = torch.linalg.vector_norm(vector)
    scale = torch.where(length > clip_norm, clip_norm / length, torch.ones_like(length))
    for p, g in zip(parameters, gradients):
        p.grad = None if g is None else g * scale.to(g.dtype)
    optimizer.step()
    return loss.detach()


@right("keeps only the real tokens, with a boolean index, before the loss")
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    model.zero_grad()
    real = batch.target_out != PAD  # (B, T)
    output = model(batch.source, batch.lengths, batch.target_in)
    log_p = F.log_softmax(output[0][real], dim=-1)  # (N, V)
    loss = F.nll_loss(log_p, batch.target_out[real])
    loss.backward()
    nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=clip_norm)
    optimizer.step()
    return loss.item()


@right("a closure for the optimizer, and a loss added up sentence by sentence")
def train_step(model, optimizer, batch, clip_norm):
    def closure():
        model.zero_grad()
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        total, count = 0.0, 0
        for row, gold in zip(logits, batch.target_out):
            places = [t for t, token in enumerate(gold.tolist()) if token != PAD]
            count += len(places)
            for t in places:
                total = total + row[t].logsumexp(dim=-1) - row[t, gold[t]]
        loss = total / count
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        return loss

    return optimizer.step(closure).detach()


# Wrong answers


@wrong(
    "forgets ignore_index: padding counts in the sum and in the number of tokens",
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
    "clips after the step of the optimizer, when it is too late",
    "Then make one step of the optimizer.",
    "clips after the step",
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
    "shifts the targets once more, so that position t is asked for the token after the "
    "next one",
    "It should predict `target_out`, which is the target followed by EOS.",
    "targets shifted twice",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits[:, :-1].flatten(0, 1),
        batch.target_out[:, 1:].flatten(),
        ignore_index=PAD,
    )
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "cuts every single number of the gradient off at clip_norm",
    "Take the gradients of all parameters as one long vector, and scale this vector "
    "down to the Euclidean norm `clip_norm` if its norm is larger.",
    "clips values instead of the norm",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "takes the mean of each sentence first, and then the mean over the sentences: a "
    "token of a short sentence counts more, which shows only where lengths differ",
    "Compute the loss, which is the mean over all tokens that are not padding:",
    "mean of the sentences' means",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    losses = F.cross_entropy(
        logits.transpose(1, 2), batch.target_out, ignore_index=PAD, reduction="none"
    )
    counts = (batch.target_out != PAD).sum(dim=1)
    loss = (losses.sum(dim=1) / counts).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "sets the gradients to zero after the step, not before: what the parameters hold at "
    "the first call counts",
    "Do not let these old gradients count.",
    "old gradients are removed too late",
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
    return loss.detach()


@wrong(
    "always scales the gradient to clip_norm, and so makes short gradients longer",
    "Take the gradients of all parameters as one long vector, and scale this vector "
    "down to the Euclidean norm `clip_norm` if its norm is larger.",
    "short gradients are scaled up",
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
    norm = torch.stack([g.norm() for g in gradients]).norm()
    for g in gradients:
        g *= clip_norm / (norm + 1e-6)
    optimizer.step()
    return loss.detach()


@wrong(
    "puts the model into train mode for its call, and afterwards back: dropout works "
    "although the model was handed over in eval mode",
    "model: updated in place; do not change its mode (train or eval), not even for one "
    "call.",
    "train mode for one call",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    was_training = model.training
    model.train()
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    model.train(was_training)
    return loss.detach()


@wrong(
    "clips parameter by parameter, so that the whole gradient may stay longer than "
    "clip_norm and changes its direction",
    "Take the gradients of all parameters as one long vector, and scale this vector "
    "down to the Euclidean norm `clip_norm` if its norm is larger.",
    "clips each parameter by itself",
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
    return loss.detach()


@wrong(
    "returns the loss with its graph: who keeps a list of losses keeps all activations",
    "The loss before the update, in nats per token: a number or a detached tensor.",
    "the loss is not detached",
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
