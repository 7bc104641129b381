import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import PAD
from blind import right, wrong

MEAN = "The loss is the mean over all tokens that are not padding,"
CUT = "Then: a gradient, cut to the length `clip_norm` if it is longer, and one step of the optimizer."
ADDS = "`backward` *adds* to the gradients that are there."


def forward(model, batch):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    return F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )


@right("the plain way")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@right("log-probabilities gathered, clipped by hand, returned as a number")
def train_step(model, optimizer, batch, clip_norm):
    model.zero_grad(set_to_none=True)
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    said = logits.log_softmax(-1).gather(-1, batch.target_out.unsqueeze(-1)).squeeze(-1)
    loss = -said[batch.target_out != PAD].mean()
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    length = sum(float((g.double() ** 2).sum()) for g in gradients) ** 0.5
    if length > clip_norm:
        for g in gradients:
            g.mul_(clip_norm / length)
    optimizer.step()
    return loss.item()


@right("autograd.grad instead of backward; sum divided by the count")
def train_step(model, optimizer, batch, clip_norm):
    parameters = [p for p in model.parameters() if p.requires_grad]
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.transpose(1, 2), batch.target_out, ignore_index=PAD, reduction="sum"
    )
    loss = total / (batch.target_out != PAD).sum()
    for p, g in zip(parameters, torch.autograd.grad(loss, parameters, allow_unused=True)):
        p.grad = g
    nn.utils.clip_grad_norm_(parameters, max_norm=clip_norm)
    optimizer.step()
    return loss.item()


@right("one-hot picking, padding filled with 0, gradients set to zero, not to None")
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad(set_to_none=False)
    logits, *_ = model(batch.source, batch.lengths, batch.target_in)
    counts = batch.target_out.ne(PAD).to(logits.dtype)
    right_ones = F.one_hot(batch.target_out, logits.size(-1)).bool()
    chosen = F.log_softmax(logits, dim=-1).masked_fill(~right_ones, 0).sum(-1)
    nats = -chosen.masked_fill(batch.target_out == PAD, 0)
    loss = nats.sum() / counts.sum()
    before = loss.detach().clone()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(list(model.parameters()), clip_norm)
    optimizer.step()
    return before


@wrong("gradients are never set to zero", breaks=ADDS, name="zero_grad forgotten")
def train_step(model, optimizer, batch, clip_norm):
    loss = forward(model, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong("clips after the step", breaks=CUT, name="clipped too late")
def train_step(model, optimizer, batch, clip_norm):
    loss = forward(model, batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    return loss.detach()


@wrong("padding counts", breaks=MEAN, name="padding in the loss")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "gradients are set to zero after the step only: what somebody left there is added",
    breaks=ADDS,
    name="zero_grad at the end",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    loss = forward(model, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


@wrong(
    "mean over sentences of the mean over tokens",
    breaks=MEAN,
    name="short sentences count more",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    nats = F.cross_entropy(
        logits.transpose(1, 2), batch.target_out, ignore_index=PAD, reduction="none"
    )
    loss = (nats.sum(1) / (batch.target_out != PAD).sum(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "every parameter's gradient is cut for itself",
    breaks="clip_norm: longest allowed gradient.",
    name="clipped parameter by parameter",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    loss = forward(model, batch)
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        nn.utils.clip_grad_norm_(p, clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "a short gradient is made longer",
    breaks=CUT,
    name="always scaled to clip_norm",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    loss = forward(model, batch)
    optimizer.zero_grad()
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    length = torch.stack([g.norm() for g in gradients]).norm()
    for g in gradients:
        g.mul_(clip_norm / (length + 1e-6))
    optimizer.step()
    return loss.detach()


@wrong(
    "returns the loss after the update",
    breaks="The loss before the update, in nats per token: a number, or a tensor without a gradient (`detach`).",
    name="loss of the updated model",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    forward(model, batch).backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    with torch.no_grad():
        return forward(model, batch)


@wrong(
    "probability plus a little, then the logarithm: a very wrong answer costs too little",
    breaks=r"\mathcal{L} = -\frac{1}{N} \sum_{b,t:\ y_{bt} \ne \mathrm{PAD}} \log P(y_{bt} \mid y_{b,<t}, x_b), \qquad N = \text{number of these tokens.}",
    name="logarithm of a probability that was made larger",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    p = logits.softmax(-1).gather(-1, batch.target_out[..., None])[..., 0]
    loss = -(p + 1e-9).log()[batch.target_out != PAD].mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "the loss is returned with its graph",
    breaks="The loss before the update, in nats per token: a number, or a tensor without a gradient (`detach`).",
    name="loss not detached",
    subtle=True,
)
def train_step(model, optimizer, batch, clip_norm):
    loss = forward(model, batch)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss
