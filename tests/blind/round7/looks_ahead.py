import copy
import itertools

import torch
from torch import nn
from blind import right, wrong


@right('from the last position to the first, with try and finally')
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        before = model(source, lengths, target.clone())[0].clone()
        for t in reversed(range(1, target.shape[1])):
            for token in range(before.shape[-1]):
                changed = torch.cat(
                    [
                        target[:, :t],
                        torch.full_like(target[:, :1], token),
                        target[:, t + 1 :],
                    ],
                    dim=1,
                )
                after = model(source, lengths, changed)[0]
                if (after[:, :t] - before[:, :t]).abs().max() > 5e-4:
                    return True
        return False
    finally:
        for module, training in modes.items():
            module.training = training


@right('any over a product of positions and tokens')
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = [module.training for module in model.modules()]
    model.eval()
    length = target.size(1)
    before, _ = model(source, lengths, target)
    before = before.clone()
    place = torch.arange(length, device=target.device)

    def leaks(t, token):
        changed = torch.where(place == t, torch.full_like(target, token), target)
        after, _ = model(source, lengths, changed)
        return bool((after - before)[:, :t].abs().gt(0.001).any())

    pairs = itertools.product(range(1, length), range(before.size(-1)))
    answer = any(leaks(t, token) for t, token in pairs)
    for module, mode in zip(model.modules(), training):
        module.training = mode
    return answer


@right('a deep copy of the model is asked, the model itself is not touched')
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    twin = copy.deepcopy(model).eval()
    before = twin(source, lengths, target)[0].clone()
    largest = 0.0
    for t in range(1, target.size(1)):
        for token in range(before.size(2)):
            changed = target.clone()
            changed[:, t].fill_(token)
            gap = twin(source, lengths, changed)[0][:, :t] - before[:, :t]
            largest = max(largest, gap.abs().max().item())
    return largest > 0.001


@right('the largest change for each distance is collected in a table first')
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    modes = [(module, module.training) for module in model.modules()]
    model.train(False)
    before = model(source, lengths, target)[0].detach().clone()
    batch, length, vocabulary = before.shape
    table = torch.zeros(length, length)
    for token in range(vocabulary):
        for t in range(length):
            changed = target.clone()
            changed[:, t] = token
            gap = (model(source, lengths, changed)[0] - before).abs()
            table[:, t] = torch.maximum(table[:, t], gap.amax(dim=(0, 2)).cpu().float())
    for module, mode in modes:
        module.training = mode
    return bool((table.triu(1) > 0.001).any())


@wrong(
    'position t itself is compared, too, and it may change: says True for every model that reads its input',
    "The model looks ahead if you can put some token of the vocabulary in the place of the target's token at some position t, and a logit at a position before t changes by more than 0.001.",
    'compares the changed position itself',
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if bool(((after - before)[:, : t + 1].abs() > 0.001).any()):
                found = True
    for module, mode in modes:
        module.training = mode
    return found


@wrong(
    'only one other token is tried at each position: misses a leak that sees one token alone',
    'So try every position, and at each position every token from 0 to V - 1.',
    'tries one other token only',
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for _ in range(1):
            changed = target.clone()
            changed[:, t] = (target[:, t] + 1) % before.size(-1)
            after, _ = model(source, lengths, changed)
            if bool(((after - before)[:, :t].abs() > 0.001).any()):
                found = True
    for module, mode in modes:
        module.training = mode
    return found


@wrong(
    "the target is changed itself and not put back: the caller's target is another one afterwards",
    'target: (B, T) token ids; it stays as it is.',
    "changes the caller's target",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if bool(((after - before)[:, :t].abs() > 0.001).any()):
                found = True
    for module, mode in modes:
        module.training = mode
    return found


@wrong(
    'the tokens of the target count as the vocabulary: a leak that sees a larger id is missed',
    'So try every position, and at each position every token from 0 to V - 1.',
    'vocabulary taken from the target',
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(int(target.max()) + 1):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if bool(((after - before)[:, :t].abs() > 0.001).any()):
                found = True
    for module, mode in modes:
        module.training = mode
    return found


@wrong(
    'the model always ends in training mode, also if it came in evaluation mode',
    'In training mode, dropout changes the logits from call to call. So put the model in evaluation mode while you look, and leave it in the mode in which it came.',
    'always leaves training mode on',
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if bool(((after - before)[:, :t].abs() > 0.001).any()):
                found = True
    model.train()
    return found


@wrong(
    'with T = 1 there is nothing to compare, and the maximum over an empty list raises an error',
    'P may be 0, every other length is at least 1.',
    'fails on targets of length one',
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    before, _ = model(source, lengths, target)
    gaps = []
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            gaps.append((after - before)[:, :t].abs().max())
    for module, mode in modes:
        module.training = mode
    return bool(torch.stack(gaps).max() > 0.001)


@wrong(
    'any difference counts: rounding is taken for a leak',
    'Rounding changes logits, too, but by less than 0.00001.',
    'rounding taken for a leak',
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if not torch.equal(after[:, :t], before[:, :t]):
                found = True
    for module, mode in modes:
        module.training = mode
    return found


@wrong(
    'torch.allclose with its relative tolerance: with logits of 1,000 a change of 0.005 is overlooked',
    "The model looks ahead if you can put some token of the vocabulary in the place of the target's token at some position t, and a logit at a position before t changes by more than 0.001.",
    'relative tolerance hides small leaks in large logits',
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if not torch.allclose(after[:, :t], before[:, :t], atol=1e-3):
                found = True
    for module, mode in modes:
        module.training = mode
    return found


@wrong(
    'the sign stays on the changes, and a leak that only lowers logits is missed; most leaks raise some logit and lower another',
    "The model looks ahead if you can put some token of the vocabulary in the place of the target's token at some position t, and a logit at a position before t changes by more than 0.001.",
    'only rising logits count',
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if bool(((after - before)[:, :t] > 0.001).any()):
                found = True
    for module, mode in modes:
        module.training = mode
    return found
