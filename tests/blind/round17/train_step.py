import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import PAD
from blind import right, wrong

LOSS = "Compute the loss, which is the mean over all tokens that are not padding:"
CLIP = "Take the gradients of all parameters as one long vector, and scale this vector down to the Euclidean norm `clip_norm` if its norm is larger."
OLD = "Do not let these old gradients count."
MODE = "model: updated in place; do not change its mode (train or eval), not even for one call."
NUMBERS = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
PRECISE = "Compute in the dtype of the inputs or in a more precise one: then rounding errors cost no points."


def loss_of(model, batch):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    return F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )


# ---------------------------------------------------------------- right answers


@right("asks autograd for new gradients, scales them, and only then stores them")
def train_step(model, optimizer, batch, clip_norm):
    parameters = [p for p in model.parameters() if p.requires_grad]
    loss = loss_of(model, batch)
    grads = torch.autograd.grad(loss, parameters, allow_unused=True)
    norm = nn.utils.get_total_norm([g for g in grads if g is not None])
    factor = torch.clamp(clip_norm / norm, max=1.0) if norm > 0 else 1.0
    for p, g in zip(parameters, grads):
        p.grad = None if g is None else g * factor
    optimizer.step()
    return loss.item()


@right("logsumexp minus the logit of the right token, summed and divided by N")
def train_step(model, optimizer, batch, clip_norm):
    for p in model.parameters():
        p.grad = None
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    token = batch.target_out != PAD
    chosen = logits[token]  # (N, V)
    gold = chosen.gather(1, batch.target_out[token][:, None])[:, 0]
    loss = (chosen.logsumexp(-1) - gold).sum() / token.sum()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@right("gives the optimizer a closure")
def train_step(model, optimizer, batch, clip_norm):
    def closure():
        model.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        return loss

    return optimizer.step(closure).detach()


@right("really makes one long vector of the gradients")
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    losses = F.cross_entropy(logits.mT, batch.target_out, reduction="none")
    count = (batch.target_out != PAD).sum()
    loss = losses.masked_fill(batch.target_out == PAD, 0).sum() / count
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.cat([g.reshape(-1) for g in grads]).norm()
    if norm > clip_norm:
        for g in grads:
            g.mul_(clip_norm / norm)
    optimizer.step()
    return loss.detach().clone()


# ---------------------------------------------------------------- wrong answers


@wrong("clips after the step", breaks=CLIP, name="too late to clip")
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    return loss.item()


@wrong("counts padding in the mean", breaks=LOSS, name="no ignore_index")
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "clips the gradient of each parameter by itself",
    breaks="Take the gradients of all parameters as one long vector",
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
    "a mean for each sentence, then the mean of these means",
    breaks=r"\mathcal{L} = -\frac{1}{N} \sum_{b,t:\ y_{bt} \ne \mathrm{PAD}} \log P(y_{bt} \mid y_{b,<t}, x_b), \qquad N = \text{number of these tokens.}",
    name="short sentences count more",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    losses = F.cross_entropy(
        logits.mT, batch.target_out, ignore_index=PAD, reduction="none"
    )
    per_sentence = losses.sum(1) / (batch.target_out != PAD).sum(1)
    loss = per_sentence.mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "clears the gradients after the step instead of before backward",
    breaks=OLD,
    name="the first call adds to old gradients",
)
def train_step(model, optimizer, batch, clip_norm):
    loss = loss_of(model, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


@wrong(
    "scales the gradient to clip_norm in any case",
    breaks="scale this vector down to the Euclidean norm `clip_norm` if its norm is larger.",
    name="short gradients are stretched, which Adam hides",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = nn.utils.get_total_norm(grads)
    for g in grads:
        g.mul_(clip_norm / (norm + 1e-12))
    optimizer.step()
    return loss.item()


@wrong(
    "puts the model into train mode first, as every tutorial does",
    breaks=MODE,
    name="changes the mode of an eval model",
)
def train_step(model, optimizer, batch, clip_norm):
    model.train()
    optimizer.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "log of the softmax plus 1e-9",
    breaks=NUMBERS,
    name="a very improbable token costs at most 20.7 nats",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    log_p = torch.log(logits.softmax(dim=-1) + 1e-9)
    loss = F.nll_loss(
        log_p.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "clips the first parameter group of the optimizer only",
    breaks="Take the gradients of all parameters as one long vector, and scale this vector down",
    name="other groups are not clipped",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "casts the logits to float32 'for stability', also from float64",
    breaks=PRECISE,
    name="a float64 model gets a float32 loss",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.float().flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()
