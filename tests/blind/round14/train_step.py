import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import PAD
from blind import right, wrong

CHANGE = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
ALL = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRAD = "Gradients must be right, too."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
STATE = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
MEAN = "Compute the loss, which is the mean over all tokens that are not padding:"
SCALE = (
    "Take the gradients of all parameters as one long vector, and scale this vector down"
    " to the Euclidean norm `clip_norm` if its norm is larger."
)
STEP = "Then make one step of the optimizer."
OLD = "Do not let these old gradients count."
MODE = (
    "model: updated in place; do not change its mode (train or eval), not even\n"
    "            for one call."
)
RETURNS = "The loss before the update, in nats per token: a number or a detached tensor."



@right("asks autograd for the gradients, scales them and hands them to the optimizer")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    logs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    real = batch.target_out != PAD
    gold = batch.target_out.unsqueeze(-1)
    losses = -logs.gather(-1, gold).squeeze(-1)
    loss = losses.masked_fill(~real, 0.0).sum() / real.sum()
    learned = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss, learned, allow_unused=True)
    known = [g.double() for g in gradients if g is not None]
    norm = sum(float(g.square().sum()) for g in known) ** 0.5
    shrink = min(1.0, clip_norm / norm) if norm > 0 else 1.0
    for p in model.parameters():
        p.grad = None
    for p, g in zip(learned, gradients):
        if g is not None:
            p.grad = g * shrink
    optimizer.step()
    return loss.item()


@right("hands the whole computation to the optimizer as its closure")
def train_step(model, optimizer, batch, clip_norm):
    seen = []

    def closure():
        model.zero_grad()
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        loss = F.cross_entropy(logits.mT, batch.target_out, ignore_index=PAD)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        seen.append(loss.detach())
        return loss

    optimizer.step(closure)
    return seen[0]


@right("one flat vector of all gradients, scaled and cut into pieces again")
def train_step(model, optimizer, batch, clip_norm):
    for p in model.parameters():
        p.grad = None
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    kept = batch.target_out != PAD
    rows, gold = logits[kept], batch.target_out[kept]
    rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
    picked = rows[torch.arange(len(gold), device=gold.device), gold]
    loss = (rows.logsumexp(dim=-1) - picked).mean()
    loss.backward()
    owners = [p for p in model.parameters() if p.grad is not None]
    vector = torch.cat([p.grad.reshape(-1) for p in owners]).double()
    norm = vector.norm()
    if norm > clip_norm:
        vector = vector / norm * clip_norm
        for p, piece in zip(owners, vector.split([p.numel() for p in owners])):
            p.grad.copy_(piece.view_as(p))
    optimizer.step()
    return float(loss.detach())


@right("sums the losses sentence by sentence, and takes the norm of the norms")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = sum(
        F.cross_entropy(row, gold, ignore_index=PAD, reduction="sum")
        for row, gold in zip(logits, batch.target_out)
    )
    loss = total / int((batch.target_out != PAD).sum())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norms = [torch.linalg.vector_norm(g, dtype=torch.float64) for g in gradients]
    norm = torch.stack(norms).norm().item()
    if norm > clip_norm:
        for g in gradients:
            g.mul_(clip_norm / norm)
    optimizer.step()
    return loss.detach()


@wrong("adds the new gradients to the old ones", OLD, "old gradients not erased")
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
    "shortens the gradients only after the optimizer's step",
    SCALE,
    "clips after the step",
)
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    return loss.item()


@wrong("counts padding as tokens of the target", MEAN, "padding counts in the loss")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "averages each sentence first and then the sentences, so tokens of short sentences"
    " weigh more",
    MEAN,
    "mean of the sentences' means",
)
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    losses = F.cross_entropy(
        logits.mT, batch.target_out, ignore_index=PAD, reduction="none"
    )
    loss = (losses.sum(1) / (batch.target_out != PAD).sum(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "erases the gradients at the end of each step, so gradients from before the first"
    " call still count",
    OLD,
    "erases gradients only afterwards",
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
    "clips the gradient of each parameter by itself, so the directions change and the"
    " whole may stay too long",
    SCALE,
    "each parameter clipped separately",
)
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        nn.utils.clip_grad_norm_(parameter, clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "puts the model into train mode for the call, and back into its earlier mode"
    " afterwards",
    MODE,
    "switches to train mode",
)
def train_step(model, optimizer, batch, clip_norm):
    earlier = model.training
    model.train()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    model.train(earlier)
    return loss.item()


@wrong(
    "takes the logarithm of the softmax in two steps, which gives an infinite loss if a"
    " logit is far below the largest",
    ALL,
    "logarithm of an underflowed softmax",
)
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    logs = logits.softmax(dim=-1).log()
    loss = F.nll_loss(logs.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "clips only the parameters of the optimizer's first group",
    SCALE,
    "only first parameter group clipped",
)
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], clip_norm)
    optimizer.step()
    return loss.item()


@wrong(
    "returns the loss with its graph, so a list of losses keeps all graphs in memory",
    RETURNS,
    "returned loss is not detached",
)
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss
