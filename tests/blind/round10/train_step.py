import torch
import torch.nn.functional as F
from attention_course.tasks.core import PAD
from blind import right, wrong
from torch import nn


@right("log-softmax and gather by hand, with the padding masked and the sum divided by N")
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    model.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    real = batch.target_out != PAD
    scores = logits.log_softmax(dim=-1)
    picked = scores.gather(2, batch.target_out.unsqueeze(-1)).squeeze(-1)
    loss = -picked.masked_select(real).sum() / real.sum()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@right("torch.autograd.grad instead of backward; shortens the gradients before it stores them")
def train_step(model, optimizer, batch, clip_norm):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.transpose(1, 2), batch.target_out, ignore_index=PAD
    )
    for parameter in model.parameters():
        parameter.grad = None
    trained = [p for p in model.parameters() if p.requires_grad]
    grads = torch.autograd.grad(loss, trained, allow_unused=True)
    found = [(p, g) for p, g in zip(trained, grads) if g is not None]
    length = torch.cat([g.flatten() for _, g in found]).norm()
    for parameter, grad in found:
        parameter.grad = grad * (clip_norm / length) if length > clip_norm else grad
    optimizer.step()
    return loss.detach()


@right("picks the real tokens with a boolean index first, so no padding reaches the loss")
def train_step(model, optimizer, batch, clip_norm):
    model.zero_grad(set_to_none=True)
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    keep = batch.target_out.ne(PAD)
    loss = nn.CrossEntropyLoss()(logits[keep], batch.target_out[keep])
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    length = torch.stack([g.norm() for g in grads]).norm()
    if length > clip_norm:
        for grad in grads:
            grad.mul_(clip_norm / length)
    optimizer.step()
    return float(loss)


@right("hands the optimizer a closure that computes loss and gradient, and returns what it gives back")
def train_step(model, optimizer, batch, clip_norm):
    def closure():
        for parameter in model.parameters():
            parameter.grad = None
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        losses = F.cross_entropy(
            logits.flatten(0, 1),
            batch.target_out.flatten(),
            ignore_index=PAD,
            reduction="sum",
        )
        loss = losses / (batch.target_out != PAD).sum()
        loss.backward()
        nn.utils.clip_grad_norm_(list(model.parameters()), clip_norm)
        return loss

    return optimizer.step(closure).detach()


@wrong(
    "never clears the gradients: they add up from call to call, so the second call (or"
    " the first, if gradients were left over) makes a wrong step",
    "The parameters may still hold gradients from earlier steps. Do not let them count.",
    "Old gradients are not cleared",
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
    "shortens the gradient after the optimizer has used it: wrong whenever the gradient"
    " is longer than clip_norm",
    "Take the gradients of all parameters as one long vector, and shorten this vector to"
    " the length `clip_norm` if it is longer. Then make one step of the optimizer.",
    "Clips after the step",
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
    "padding counts as a token to be predicted: wrong for a batch whose targets differ in"
    " length",
    "Compute the loss, which is the mean over all tokens that are not padding:",
    "Padding counts in the loss",
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
    "shortens each parameter's gradient on its own: wrong if the whole gradient is longer"
    " than clip_norm and there is more than one parameter",
    "Take the gradients of all parameters as one long vector, and shorten this vector to"
    " the length `clip_norm` if it is longer.",
    "Clips each parameter separately",
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
    "begins with model.train(): a model in eval mode comes back in train mode, and its"
    " dropout was on",
    "model: updated in place; keep its mode (train or eval).",
    "Switches the model to train mode",
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
    "writes -100 over the padding of the batch's own target_out: loss and step are right,"
    " but the batch has changed if it holds padding",
    "Do not change the inputs.",
    "Overwrites padding in the batch",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    answers = batch.target_out.masked_fill_(batch.target_out == PAD, -100)
    loss = F.cross_entropy(logits.transpose(1, 2), answers)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


@wrong(
    "brings every gradient to the length clip_norm, so one that is shorter is made longer",
    "Take the gradients of all parameters as one long vector, and shorten this vector to"
    " the length `clip_norm` if it is longer.",
    "Short gradients are stretched",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    length = torch.cat([grad.flatten() for grad in grads]).norm()
    for grad in grads:
        grad.mul_(clip_norm / length)
    optimizer.step()
    return loss.detach()


@wrong(
    "clears the gradients at the end instead of before `backward`: right in a loop of its"
    " own calls, wrong when somebody else left gradients in the parameters",
    "The parameters may still hold gradients from earlier steps. Do not let them count.",
    "Gradients cleared only after the step",
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
    "shortens a gradient that is too long to the length 1: right for clip_norm=1, which"
    " the lab uses, wrong for any other",
    "Take the gradients of all parameters as one long vector, and shorten this vector to"
    " the length `clip_norm` if it is longer.",
    "Clips to length 1 whatever clip_norm is",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    length = torch.stack([grad.norm() for grad in grads]).norm()
    if length > clip_norm:
        for grad in grads:
            grad.div_(length)
    optimizer.step()
    return loss.detach()


@wrong(
    "takes the mean within each sentence and then the mean of the sentences: right where"
    " all targets have the same length, wrong where they differ",
    r"\mathcal{L} = -\frac{1}{N} \sum_{b,t:\ y_{bt} \ne \mathrm{PAD}} \log P(y_{bt} \mid"
    r" y_{b,<t}, x_b), \qquad N = \text{number of these tokens.}",
    "Mean of sentence means instead of mean over tokens",
)
def train_step(model, optimizer, batch, clip_norm):
    optimizer.zero_grad()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    losses = F.cross_entropy(
        logits.transpose(1, 2), batch.target_out, ignore_index=PAD, reduction="none"
    )
    real = batch.target_out != PAD
    loss = (losses.sum(dim=1) / real.sum(dim=1)).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()
