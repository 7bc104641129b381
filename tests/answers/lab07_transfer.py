"""Answers to lab07_transfer, written as in the lab: with its imports."""

import copy

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong
from answers.signs import DTYPE, FITS, IN_PLACE, NO_NAME, NOTHING
from torch import nn

from attention_course.masks import padding_mask
from attention_course.questions.core import Request
from attention_course.questions.lab07_transfer import NAMES

# --- what equivalent answers agree on ---------------------------------------------------------------------------------

SHAPES = {
    "embeddings.0.weight": (7, 4),
    "encoder.layer.0.0.weight": (4, 4),
    "encoder.layer.0.0.bias": (4,),
    "encoder.layer.1.0.weight": (4, 4),
    "encoder.layer.1.0.bias": (4,),
    "pooler.weight": (4, 4),
    "pooler.bias": (4,),
}


def draw(g, *shape):
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def chance(g, share):
    return float(torch.rand((), generator=g)) < share


@wide("load_body")
def any_file(g):
    for number in range(60):
        present, odd = (0.95, 0.5, 0.2)[number % 3], 0.3 if number % 2 else 0.0
        places = [i for i in range(3 * len(NAMES)) if chance(g, present if i < len(NAMES) else 0.3)]
        file = []
        for i in places:
            shape = SHAPES.get(NAMES[i % len(NAMES)], (3, 2))
            file.append(draw(g, *(n + 1 for n in shape)) if chance(g, odd / 4) else draw(g, *shape))
        own = [draw(g, *shape) for shape in SHAPES.values()]
        yield Request((torch.empty(number % 2, 0), torch.tensor(places, dtype=torch.long), *own, *file))


@wide("sentence_head")
def any_sentences(g):
    for b in (1, 2, 4):
        for s in (1, 3, 6):
            for dropout in (0, 1, 2):
                dim, labels = torch.randint(1, 6, (2,), generator=g).tolist()
                weights = {"inner.weight": draw(g, dim, dim), "inner.bias": draw(g, dim)}
                weights |= {"outer.weight": draw(g, labels, dim), "outer.bias": draw(g, labels)}
                mask = torch.rand(b, s, generator=g) < 0.6
                yield Request((draw(g, b, s, dim), mask), (dim, labels, dropout), weights, gradients=True)


@wide("freeze")
def any_depth(g):
    for layers in range(5):
        for freezes in (0, 1):
            weights = {"body.embeddings.0.weight": draw(g, 7, 4), "head.inner.weight": draw(g, 4, 4)}
            weights |= {f"body.encoder.layer.{i}.0.weight": draw(g, 4, 4) for i in range(layers)}
            weights |= {f"body.encoder.layer.{i}.0.bias": draw(g, 4) for i in range(layers)}
            weights |= {
                "head.inner.bias": draw(g, 4),
                "head.outer.weight": draw(g, 6, 4),
                "head.outer.bias": draw(g, 6),
            }
            yield Request((torch.empty(freezes, 0),), (layers,), weights)


@wide("accuracy")
def any_batches(g):
    for number in range(24):
        sizes = torch.randint(1, 9, (1 + number % 4,), generator=g).tolist()
        words, labels, length = (2 + n for n in torch.randint(6, (3,), generator=g).tolist())
        table = draw(g, words, labels)
        source = torch.randint(words, (sum(sizes), length), generator=g)
        answers = torch.where(
            torch.rand(sum(sizes), generator=g) < 0.6,
            table[source[:, 0]].argmax(-1),
            torch.randint(labels, (sum(sizes),), generator=g),
        )
        yield Request((table, source, answers[:, None], torch.zeros(sizes), torch.empty(number % 2, 0)))


@wide("parameter_groups")
def any_rates(g):
    for number in range(24):
        layers = number % 6
        rate, decay = (0.1 + torch.rand(2, generator=g, dtype=torch.float64)).unbind()
        frozen = torch.rand(layers + 2, generator=g) < (0.4 if number % 2 else 0.0)
        yield Request((rate, decay, torch.empty(layers, 0), frozen))


# --- load_body --------------------------------------------------------------------------------------------------------


def refuse(name, tensor, wanted):
    raise ValueError(f"{name} has shape {tuple(tensor.shape)}, the body wants {tuple(wanted.shape)}")


@right("load_body")
def load_body(body, weights, prefix):
    own = body.state_dict()
    fitting = {name.removeprefix(prefix): x for name, x in weights.items() if name.startswith(prefix)}
    for name, x in fitting.items():
        if name in own and x.shape != own[name].shape:
            refuse(name, x, own[name])
    missing, _ = body.load_state_dict(fitting, strict=False)
    return missing, [name for name in weights if name not in {prefix + known for known in own}]


@right("load_body")
def prefix_put_on(body, weights, prefix):
    own = {prefix + name: x for name, x in body.state_dict().items()}
    both = own.keys() & weights.keys()
    for name in both:
        if own[name].size() != weights[name].size():
            raise ValueError(f"shapes differ for {name}")
    for name in both:
        own[name].copy_(weights[name])
    missing = {name[len(prefix) :] for name in own.keys() - weights.keys()}
    return missing, weights.keys() - own.keys()


@right("load_body")
def parameters_under_no_grad(body, weights, prefix):
    missing = []
    for name, parameter in body.named_parameters():
        theirs = weights.get(prefix + name)
        if theirs is None:
            missing.append(name)
        elif theirs.shape != parameter.shape:
            raise ValueError(f"{name}: {tuple(theirs.shape)} is not {tuple(parameter.shape)}")
    used = []
    with torch.no_grad():
        for name, parameter in body.named_parameters():
            if prefix + name in weights:
                parameter.copy_(weights[prefix + name])
                used.append(prefix + name)
    return missing, [name for name in weights if name not in used]


@right("load_body")
def copied_through_data(body, weights, prefix):
    parameters = dict(body.named_parameters())
    wrong_ones = [n for n, p in parameters.items() if prefix + n in weights and weights[prefix + n].shape != p.shape]
    if wrong_ones:
        raise ValueError(", ".join(wrong_ones))
    missing = set(parameters)
    unexpected = set(weights)
    for name, parameter in parameters.items():
        if prefix + name in weights:
            parameter.data[:] = weights[prefix + name]
            missing.remove(name)
            unexpected.remove(prefix + name)
    return sorted(missing), sorted(unexpected)


@right("load_body")
def cloned_into_data(body, weights, prefix):
    found, unexpected = {}, []
    own = dict(body.named_parameters())
    for name, tensor in weights.items():
        if name[: len(prefix)] == prefix and name[len(prefix) :] in own:
            found[name[len(prefix) :]] = tensor
        else:
            unexpected.append(name)
    for name in found:
        if list(found[name].shape) != list(own[name].shape):
            raise ValueError("another shape: " + name)
    for name in found:
        own[name].data = found[name].clone()
    return [name for name in own if name not in found], unexpected


@right("load_body")
def a_new_state(body, weights, prefix):
    state = body.state_dict()
    merged, missing = {}, []
    for name in state:
        if prefix + name in weights:
            merged[name] = weights[prefix + name]
            if merged[name].shape != state[name].shape:
                raise ValueError(name)
        else:
            merged[name] = state[name]
            missing.append(name)
    body.load_state_dict(merged)
    return missing, list(filter(lambda name: name.removeprefix(prefix) not in state or name in state, weights))


@right("load_body")
def error_taken_apart(body, weights, prefix):
    table = {k[len(prefix) :]: v for k, v in weights.items() if k.startswith(prefix)}
    trial = copy.deepcopy(body)
    try:
        trial.load_state_dict(table, strict=False)
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    report = body.load_state_dict(table, strict=False)
    others = [k for k in weights if not k.startswith(prefix)]
    return report.missing_keys, [prefix + k for k in report.unexpected_keys] + others


@right("load_body")
def one_module_at_a_time(body, weights, prefix):
    pairs, used = [], set()
    missing = []
    for where, module in body.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            full = f"{where}.{name}" if where else name
            if (prefix + full) in weights:
                pairs.append((parameter, weights[prefix + full]))
                used.add(prefix + full)
            else:
                missing.append(full)
    if any(a.shape != b.shape for a, b in pairs):
        raise ValueError("some tensor has another shape")
    for parameter, value in pairs:
        parameter.detach().copy_(value)
    return missing, [name for name in weights if name not in used]


@right("load_body")
def with_get_parameter(body, weights, prefix):
    names = [name for name, _ in body.named_parameters()]
    known = [name for name in names if f"{prefix}{name}" in weights]
    for name in known:
        if body.get_parameter(name).shape != weights[f"{prefix}{name}"].shape:
            raise ValueError(f"{name} does not fit")
    for name in known:
        nn.init._no_grad_fill_(body.get_parameter(name), 0.0)
        with torch.no_grad():
            body.get_parameter(name).add_(weights[f"{prefix}{name}"])
    return tuple(n for n in names if n not in known), tuple(w for w in weights if w not in [prefix + n for n in known])


@right("load_body")
@torch.no_grad()
def counted_down(body, weights, prefix):
    left = dict(weights)
    missing, jobs = [], []
    for name, tensor in body.state_dict().items():
        value = left.pop(prefix + name, None)
        if value is None:
            missing += [name]
            continue
        if value.shape != tensor.shape:
            raise ValueError(f"{name}: shape {tuple(value.shape)}")
        jobs += [(tensor, value)]
    for tensor, value in jobs:
        tensor.set_(tensor).zero_().add_(value)
    return missing, list(left)


@right("load_body")
def partitioned(body, weights, prefix):
    own = body.state_dict()
    fitting = {}
    unexpected = []
    for name, tensor in weights.items():
        head, _, tail = name.partition(prefix)
        if head == "" and tail in own:
            fitting[tail] = tensor
        else:
            unexpected.append(name)
    for name, tensor in fitting.items():
        if tensor.shape != own[name].shape:
            raise ValueError(f"{name} does not fit")
    return body.load_state_dict(fitting, strict=False).missing_keys, unexpected


@wrong("load_body", "letters stripped, not the prefix", "not everything arrives in the body")
def stripped(body, weights, prefix):
    own = body.state_dict()
    fitting = {name.lstrip(prefix): x for name, x in weights.items() if name.startswith(prefix)}
    for name, x in fitting.items():
        if name in own and x.shape != own[name].shape:
            refuse(name, x, own[name])
    missing, _ = body.load_state_dict(fitting, strict=False)
    return missing, [name for name in weights if name not in {prefix + known for known in own}]


@wrong("load_body", "the prefix left on", "nothing arrives in the body")
def prefix_forgotten(body, weights, prefix):
    missing, unexpected = body.load_state_dict(weights, strict=False)
    return missing, unexpected


@wrong("load_body", "names without the prefix are taken, too", "other names are told")
def any_name_taken(body, weights, prefix):
    table = {name.removeprefix(prefix): x for name, x in weights.items()}
    own = body.state_dict()
    for name in table:
        if name in own and table[name].shape != own[name].shape:
            refuse(name, table[name], own[name])
    return tuple(body.load_state_dict(table, strict=False))


@wrong("load_body", "other names are told")
def unexpected_without_prefix(body, weights, prefix):
    own = body.state_dict()
    table = {name.removeprefix(prefix): x for name, x in weights.items() if name.startswith(prefix)}
    for name in table:
        if name in own and table[name].shape != own[name].shape:
            refuse(name, table[name], own[name])
    return tuple(body.load_state_dict(table, strict=False))


@wrong("load_body", "the wrong error")
def torchs_own_error(body, weights, prefix):
    own = body.state_dict()
    table = {name.removeprefix(prefix): x for name, x in weights.items() if name.startswith(prefix)}
    missing, _ = body.load_state_dict(table, strict=False)
    return missing, [name for name in weights if name not in {prefix + known for known in own}]


@wrong("load_body", "every name has to have a partner")
def strict(body, weights, prefix):
    table = {name.removeprefix(prefix): x for name, x in weights.items() if name.startswith(prefix)}
    return body.load_state_dict(table)


@wrong("load_body", "another shape is passed over")
def fitting_shapes_only(body, weights, prefix):
    own = body.state_dict()
    table = {n.removeprefix(prefix): x for n, x in weights.items() if n.startswith(prefix)}
    table = {n: x for n, x in table.items() if n in own and x.shape == own[n].shape}
    missing, _ = body.load_state_dict(table, strict=False)
    return missing, [n for n in weights if n.removeprefix(prefix) not in table]


@wrong("load_body", "refused too late")
def refused_on_the_way(body, weights, prefix):
    own, missing = body.state_dict(), []
    for name, tensor in own.items():
        if prefix + name not in weights:
            missing.append(name)
        elif weights[prefix + name].shape != tensor.shape:
            refuse(name, weights[prefix + name], tensor)
        else:
            tensor.copy_(weights[prefix + name])
    return missing, [name for name in weights if name not in {prefix + known for known in own}]


@wrong("load_body", "pointed to, not copied")
def assigned(body, weights, prefix):
    own = body.state_dict()
    table = {name.removeprefix(prefix): x for name, x in weights.items() if name.startswith(prefix)}
    for name, x in table.items():
        if name in own and x.shape != own[name].shape:
            refuse(name, x, own[name])
    for name, parameter in body.named_parameters():
        if name in table:
            parameter.data = table[name]
    return [n for n in own if n not in table], [n for n in weights if n not in {prefix + known for known in own}]


@wrong("load_body", "nothing arrives in the body")
def new_parameters(body, weights, prefix):
    own = body.state_dict()
    table = {name.removeprefix(prefix): x for name, x in weights.items() if name.startswith(prefix)}
    for name, x in table.items():
        if name in own and x.shape != own[name].shape:
            refuse(name, x, own[name])
        if name in own:
            module, _, last = name.rpartition(".")
            setattr(body.get_submodule(module), last, nn.Parameter(x.clone()))
    return [n for n in own if n not in table], [n for n in weights if n not in {prefix + known for known in own}]


@wrong("load_body", "copied with the gradient on")
def gradient_on(body, weights, prefix):
    own = dict(body.named_parameters())
    for name, parameter in own.items():
        if prefix + name in weights:
            parameter.copy_(weights[prefix + name])
    return [n for n in own if prefix + n not in weights], [n for n in weights if n.removeprefix(prefix) not in own]


@wrong("load_body", "frozen on the way")
def no_gradient_any_more(body, weights, prefix):
    own = dict(body.named_parameters())
    for name, parameter in own.items():
        if prefix + name in weights and weights[prefix + name].shape != parameter.shape:
            refuse(name, weights[prefix + name], parameter)
    for name, parameter in own.items():
        parameter.requires_grad = False
        if prefix + name in weights:
            parameter.copy_(weights[prefix + name])
    return [n for n in own if prefix + n not in weights], [n for n in weights if n not in {prefix + k for k in own}]


@wrong("load_body", "missing and unexpected exchanged", "other names are told")
def exchanged(body, weights, prefix):
    return load_body(body, weights, prefix)[::-1]


@wrong("load_body", NOTHING)
def no_report(body, weights, prefix):
    load_body(body, weights, prefix)


@wrong("load_body", "nothing arrives in the body")
def the_table_alone(body, weights, prefix):
    own = body.state_dict()
    for name in own:
        if prefix + name in weights:
            own[name] = weights[prefix + name]
    return [n for n in own if prefix + n not in weights], [n for n in weights if n.removeprefix(prefix) not in own]


@wrong("load_body", NO_NAME, "every name has to have a partner")
def all_names_expected(body, weights, prefix):
    own = body.state_dict()
    for name in own:
        own[name].copy_(weights[prefix + name])
    return [], [n for n in weights if n.removeprefix(prefix) not in own]


# --- sentence_head ----------------------------------------------------------------------------------------------------


class Head(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        return self.answer(self.pool(states, mask))

    def pool(self, states, mask):
        count = mask.sum(dim=1, keepdim=True).clamp(min=1)
        return (states * mask.unsqueeze(-1)).sum(dim=1) / count

    def answer(self, mean):
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


def head_with(part):
    return lambda function: type(function.__name__, (Head,), {part: function})


right("sentence_head")(Head)


@right("sentence_head")
@head_with("pool")
def filled_with_zeros(self, states, mask):
    states = states.masked_fill(~mask[..., None], 0.0)
    return states.sum(1) / mask.sum(1).clamp(min=1)[:, None]


@right("sentence_head")
@head_with("pool")
def pooled_by_einsum(self, states, mask):
    m = mask.to(states.dtype)
    return torch.einsum("bsd,bs->bd", states, m) / m.sum(1, keepdim=True).clamp(min=1)


@right("sentence_head")
@head_with("pool")
def pooled_by_a_product(self, states, mask):
    m = mask.to(states.dtype)[:, None]
    return (m @ states)[:, 0] / m.sum(-1).clamp(min=1)


@right("sentence_head")
@head_with("pool")
def weights_first(self, states, mask):
    m = mask.to(states.dtype)
    m = m / m.sum(1, keepdim=True).clamp(min=1)
    return (m[..., None] * states).sum(1)


@right("sentence_head")
@head_with("pool")
def chosen_by_where(self, states, mask):
    count = mask.sum(1, keepdim=True)
    total = torch.where(mask[..., None], states, torch.zeros_like(states)).sum(1)
    return total / torch.where(count == 0, torch.ones_like(count), count)


@right("sentence_head")
@head_with("pool")
def position_by_position(self, states, mask):
    total, count = 0, 0
    for s in range(states.size(1)):
        m = mask[:, s : s + 1].to(states.dtype)
        total, count = total + states[:, s] * m, count + m
    return total / count.clamp_min(1)


@right("sentence_head")
@head_with("pool")
def maximum_of_one(self, states, mask):
    count = mask.sum(1)
    return (states.mT * mask[:, None]).sum(-1) / torch.maximum(count, torch.ones_like(count)).unsqueeze(1)


@right("sentence_head")
@head_with("answer")
def maps_by_hand(self, mean):
    hidden = (mean @ self.inner.weight.T + self.inner.bias).tanh()
    return self.dropout(hidden) @ self.outer.weight.T + self.outer.bias


@right("sentence_head")
@head_with("answer")
def functional(self, mean):
    hidden = 2 * torch.sigmoid(2 * F.linear(mean, self.inner.weight, self.inner.bias)) - 1
    return F.linear(self.dropout(hidden), self.outer.weight, self.outer.bias)


@right("sentence_head")
@head_with("forward")
def mapped_before_the_mean(self, states, mask):
    m = mask.to(states.dtype).unsqueeze(2)
    mean = (F.linear(states, self.inner.weight) * m).sum(1) / m.sum(1).clamp(min=1)
    return self.outer(self.dropout(torch.tanh(mean + self.inner.bias)))


@right("sentence_head")
@head_with("pool")
def nan_taken_out(self, states, mask):
    mean = (states * mask[..., None]).sum(1) / (mask.sum(1, keepdim=True) + (mask.sum(1, keepdim=True) == 0))
    return mean


@wrong("sentence_head", "padding counts")
@head_with("pool")
def plain_mean(self, states, mask):
    return states.mean(dim=1)


@wrong("sentence_head", "divided by padding, too")
@head_with("pool")
def mean_of_masked(self, states, mask):
    return (states * mask[..., None]).mean(dim=1)


@wrong("sentence_head", "a division by no token at all", "not a number")
@head_with("pool")
def not_clamped(self, states, mask):
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


@wrong("sentence_head", FITS)
@head_with("pool")
def mask_without_an_axis(self, states, mask):
    return (states * mask).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


@wrong("sentence_head", FITS, "the mean is taken in another way", "the head is put together in another way")
@head_with("pool")
def count_without_an_axis(self, states, mask):
    return (states * mask[..., None]).sum(1) / mask.sum(1).clamp(min=1)


@wrong("sentence_head", "the mean is taken in another way", "padding counts", "divided by padding, too")
@head_with("pool")
def all_of_the_batch(self, states, mask):
    return (states * mask[..., None]).sum(1) / mask.sum(1).max()


@wrong("sentence_head", "the head is put together in another way", "the sum, not the mean", FITS)
@head_with("pool")
def mean_over_sentences(self, states, mask):
    return (states * mask[..., None]).sum(0)[: states.size(0)] / mask.sum(0)[: states.size(0), None].clamp(min=1)


@wrong("sentence_head", "a division by no token at all", "not a number")
@head_with("pool")
def by_selection(self, states, mask):
    return torch.stack([x[m].mean(0) for x, m in zip(states, mask)])


@wrong("sentence_head", "the mean is taken in another way")
@head_with("pool")
def largest_instead(self, states, mask):
    pooled = states.masked_fill(~mask[..., None], -1e9).amax(1)
    whole = mask.all(1, keepdim=True)
    return torch.where(whole, Head.pool(self, states, mask), pooled)


@wrong("sentence_head", "tanh left out", "the head is put together in another way")
@head_with("answer")
def without_tanh(self, mean):
    return self.outer(self.dropout(self.inner(mean)))


@wrong("sentence_head", "the head is put together in another way")
@head_with("answer")
def relu_instead(self, mean):
    return self.outer(self.dropout(F.relu(self.inner(mean))))


@wrong("sentence_head", "a softmax too many")
@head_with("answer")
def softmax_at_the_end(self, mean):
    return Head.answer(self, mean).softmax(dim=-1)


@wrong("sentence_head", "dropout at another place")
@head_with("answer")
def dropout_at_the_end(self, mean):
    return self.dropout(self.outer(torch.tanh(self.inner(mean))))


@wrong("sentence_head", "dropout at another place")
@head_with("answer")
def dropout_at_the_beginning(self, mean):
    return self.outer(torch.tanh(self.inner(self.dropout(mean))))


@wrong("sentence_head", "dropout left out", "dropout at another place")
@head_with("answer")
def dropout_forgotten(self, mean):
    return self.outer(torch.tanh(self.inner(mean)))


@wrong("sentence_head", "dropout outside of training")
@head_with("answer")
def functional_dropout(self, mean):
    return self.outer(F.dropout(torch.tanh(self.inner(mean)), self.dropout.p))


@wrong("sentence_head", IN_PLACE)
@head_with("pool")
def zeroed_in_place(self, states, mask):
    states[~mask] = 0.0
    return states.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


@wrong("sentence_head", "an answer for every word")
@head_with("forward")
def word_by_word(self, states, mask):
    return self.answer(states)


@wrong("sentence_head", DTYPE)
@head_with("pool")
def mask_of_floats(self, states, mask):
    return (states * mask.float().double()[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


# --- freeze -----------------------------------------------------------------------------------------------------------


class Classifier(nn.Module):
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]
        states = self.body(input_ids=source, attention_mask=mask.long()).last_hidden_state
        return self.head(states, mask), None

    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


def classifier(name, **parts):
    return type(name, (Classifier,), parts)


def classifier_with(part):
    return lambda function: type(function.__name__, (Classifier,), {part: function})


right("freeze")(Classifier)


@right("freeze")
@classifier_with("freeze")
def one_by_one(self):
    for parameter in self.body.parameters():
        parameter.requires_grad = False
    self.frozen = True
    self.train(self.training)


@right("freeze")
@classifier_with("freeze")
def by_name(self):
    for name, parameter in self.named_parameters():
        if name.startswith("body."):
            parameter.requires_grad_(False)
    self.body.train(False)
    self.frozen = True


@right("freeze")
@classifier_with("freeze")
def all_but_the_head(self):
    self.requires_grad_(False)
    self.head.requires_grad_(True)
    self.frozen = True
    self.body = self.body.eval()
    return self


@right("freeze")
@classifier_with("train")
def one_part_after_the_other(self, mode=True):
    self.training = mode
    self.head.train(mode)
    self.body.train(mode and not self.frozen)
    return self


@right("freeze")
@classifier_with("train")
def every_module(self, mode=True):
    for module in self.modules():
        module.training = mode
    if self.frozen:
        for module in self.body.modules():
            module.training = False
    return self


@right("freeze")
@classifier_with("train")
def back_to_eval(self, mode=True):
    result = nn.Module.train(self, mode)
    self.body.train(mode if not self.frozen else False)
    return result


@right("freeze")
@classifier_with("train")
def asks_the_parameters(self, mode=True):
    nn.Module.train(self, mode)
    if not any(p.requires_grad for p in self.body.parameters()):
        self.body.eval()
    return self


def _shut(self):
    self.body.requires_grad_(False).eval()
    self.body.train = lambda mode=True: self.body


def _as_ever(self, mode=True):
    return nn.Module.train(self, mode)


right("freeze", "the_body_refuses")(classifier("the_body_refuses", freeze=_shut, train=_as_ever))


def _noted(self):
    self.kept = True
    for part in self.body.children():
        for p in part.parameters():
            p.requires_grad_(False)
    self.body.eval()


def _looked_up(self, mode=True):
    nn.Module.train(self, mode)
    if getattr(self, "kept", False):
        self.body.eval()
    return self


right("freeze", "another_attribute")(classifier("another_attribute", freeze=_noted, train=_looked_up))


@right("freeze")
@classifier_with("train")
def children_in_turn(self, mode=True):
    self.training = mode
    for name, child in self.named_children():
        child.train(mode if name != "body" or not self.frozen else False)
    return self


@right("freeze")
@classifier_with("freeze")
def module_by_module(self):
    self.frozen = True
    for module in self.body.modules():
        module.training = False
        for parameter in module.parameters(recurse=False):
            parameter.requires_grad = False


@wrong("freeze", "dropout goes on in the frozen body")
@classifier_with("train")
def train_as_before(self, mode=True):
    return super(Classifier, self).train(mode)


@wrong("freeze", "requires_grad set on the module")
@classifier_with("freeze")
def attribute_of_the_module(self):
    self.frozen = True
    self.body.requires_grad = False
    self.body.eval()


@wrong("freeze", "the head is frozen, too")
@classifier_with("freeze")
def everything_frozen(self):
    self.frozen = True
    for parameter in self.parameters():
        parameter.requires_grad = False
    self.body.eval()


@wrong("freeze", "other parameters are frozen")
@classifier_with("freeze")
def embeddings_only(self):
    self.frozen = True
    self.body.embeddings.requires_grad_(False)
    self.body.eval()


@wrong("freeze", "other parameters are frozen")
@classifier_with("freeze")
def layers_only(self):
    self.frozen = True
    for layer in self.body.encoder.layer:
        layer.requires_grad_(False)
    self.body.eval()


@wrong("freeze", "dropout goes on in the frozen body")
@classifier_with("freeze")
def flag_forgotten(self):
    self.body.requires_grad_(False)
    self.body.eval()


@wrong("freeze", "dropout goes on in the frozen body")
@classifier_with("freeze")
def only_at_the_next_train(self):
    self.frozen = True
    self.body.requires_grad_(False)


@wrong("freeze", "something rests that should train", "the head is never in training mode")
@classifier_with("freeze")
def all_of_it_in_eval(self):
    self.frozen = True
    self.body.requires_grad_(False)
    self.eval()


@wrong("freeze", "something rests that should train", "the mode is ignored")
@classifier_with("train")
def trains_nothing_if_frozen(self, mode=True):
    if self.frozen:
        return self.eval() if mode and self.training else self
    return nn.Module.train(self, mode)


@wrong("freeze", "dropout goes on in the frozen body")
@classifier_with("train")
def eval_before_train(self, mode=True):
    if self.frozen:
        self.body.eval()
    return nn.Module.train(self, mode)


@wrong("freeze", "train does not return the model")
@classifier_with("train")
def returns_the_body(self, mode=True):
    nn.Module.train(self, mode)
    return self.body.eval() if self.frozen else None


@wrong("freeze", "train calls itself")
@classifier_with("train")
def endless(self, mode=True):
    self.train(mode)
    if self.frozen:
        self.body.eval()
    return self


@wrong("freeze", "the body is always in eval mode")
@classifier_with("train")
def never_asks(self, mode=True):
    super(Classifier, self).train(mode)
    self.body.train(False)
    return self


@wrong("freeze", "the mode is ignored", "something rests that should train", "dropout goes on in the frozen body")
@classifier_with("train")
def mode_not_handed_on(self, mode=True):
    super(Classifier, self).train()
    if self.frozen:
        self.body.eval()
    return self


@wrong("freeze", "other parameters are frozen")
@classifier_with("freeze")
def one_layer_only(self):
    self.frozen = True
    self.body.encoder.layer[-1].requires_grad_(False)
    self.body.eval()


@wrong("freeze", "dropout goes on in the frozen body")
@classifier_with("train")
def layers_in_eval(self, mode=True):
    nn.Module.train(self, mode)
    if self.frozen:
        self.body.encoder.eval()
    return self


@wrong("freeze", "something rests that should train")
@classifier_with("train")
def the_head_in_eval(self, mode=True):
    nn.Module.train(self, mode)
    if self.frozen:
        self.body.eval()
        self.head.dropout.eval()
    return self


@wrong("freeze", NO_NAME)
@classifier_with("freeze")
def misspelt_freeze(self):
    self.frozen = True
    self.body.require_grad_(False)


# --- accuracy ---------------------------------------------------------------------------------------------------------


@right("accuracy")
def accuracy(model, batches):
    was_training = model.training
    model.eval()
    right_ones = count = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            right_ones += (logits.argmax(dim=-1) == batch.labels[:, 0]).sum().item()
            count += len(batch.labels)
    model.train(was_training)
    return right_ones / count


@right("accuracy")
def in_lists(model, batches):
    mode = model.training
    model.train(False)
    said, wanted = [], []
    with torch.no_grad():
        for batch in batches:
            said += model(batch.source, batch.lengths)[0].argmax(-1).tolist()
            wanted += batch.labels.squeeze(-1).tolist()
    model.train(mode)
    return sum(a == b for a, b in zip(said, wanted)) / len(said)


@right("accuracy")
def all_at_the_end(model, batches):
    before = model.training
    model.eval()
    with torch.no_grad():
        hits = [model(b.source, b.lengths)[0].argmax(1, keepdim=True) == b.labels for b in batches]
    if before:
        model.train()
    return torch.cat(hits).float().mean().item()


@right("accuracy")
def weighted_mean(model, batches):
    training = model.training
    model.eval()
    total, share = 0, 0.0
    with torch.inference_mode():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            n = batch.labels.size(0)
            share += n * (logits.max(dim=1).indices == batch.labels.view(-1)).double().mean().item()
            total += n
    model.train(training)
    return share / total


def _quiet(function):
    return torch.no_grad()(function)


@right("accuracy", "as_a_decorator")
@_quiet
def as_a_decorator(model, batches):
    was = model.training
    model.eval()
    hits = [int((model(x, n)[0].argmax(-1) == y[:, 0]).sum()) for x, n, y in batches]
    sizes = [len(y) for _, _, y in batches]
    model.train(was)
    return sum(hits) / sum(sizes)


@right("accuracy")
def with_finally(model, batches):
    was = model.training
    try:
        model.eval()
        counts = torch.zeros(2)
        for batch in batches:
            with torch.no_grad():
                best = torch.argmax(model(batch.source, batch.lengths)[0], dim=1)
            counts += torch.tensor([best.eq(batch.labels.flatten()).sum(), best.numel()])
        return float(counts[0] / counts[1])
    finally:
        model.train(was)


@right("accuracy")
def sentence_by_sentence(model, batches):
    was, hits = model.training, []
    model.eval()
    for source, lengths, labels in batches:
        with torch.no_grad():
            for row, length, label in zip(source, lengths, labels):
                logits = model(row[None], length[None])[0][0]
                hits.append(logits.argmax().item() == label.item())
    model.train(was)
    return hits.count(True) / len(hits)


@right("accuracy")
def mistakes_counted(model, batches):
    old = model.training
    model.eval()
    wrong_ones, everything = 0, 0
    with torch.no_grad():
        for batch in batches:
            best = model(batch.source, batch.lengths)[0].argmax(-1)
            wrong_ones += torch.count_nonzero(best - batch.labels[:, 0]).item()
            everything += best.shape[0]
    model.train(mode=old)
    return 1 - wrong_ones / everything


@right("accuracy")
def by_the_logits_of_the_label(model, batches):
    was_training = model.training
    model.eval()
    n = k = 0
    with torch.no_grad():
        for batch in batches:
            logits = model(batch.source, batch.lengths)[0]
            k += (logits.gather(1, batch.labels)[:, 0] == logits.amax(1)).sum().item()
            n += logits.size(0)
    if was_training:
        model.train()
    else:
        model.eval()
    return k / n


@right("accuracy")
def by_set_grad_enabled(model, batches):
    was_training, enabled = model.training, torch.is_grad_enabled()
    model.eval()
    torch.set_grad_enabled(False)
    scores = [(model(b.source, b.lengths)[0].topk(1).indices == b.labels).squeeze(1) for b in batches]
    torch.set_grad_enabled(enabled)
    model.train(was_training)
    flat = [bool(x) for row in scores for x in row]
    return sum(flat) / len(flat)


@right("accuracy")
def through_numpy(model, batches):
    state = bool(model.training)
    model.eval()
    with torch.no_grad():
        pairs = [(model(b.source, b.lengths)[0].numpy().argmax(1), b.labels.numpy()[:, 0]) for b in batches]
    model.train(state)
    return float(sum((a == b).sum() for a, b in pairs) / sum(len(a) for a, _ in pairs))


def counted(before=lambda model: model.eval(), after=lambda model, was: model.train(was), grad=torch.no_grad):
    def measured(model, batches):
        was, hits, count = model.training, 0, 0
        before(model)
        with grad():
            for b in batches:
                hits += (model(b.source, b.lengths)[0].argmax(-1) == b.labels[:, 0]).sum().item()
                count += len(b.labels)
        after(model, was)
        return hits / count

    return measured


def entered(name, thing, *names):
    thing.__name__ = name
    wrong("accuracy", *names)(thing)


entered("left_in_eval", counted(after=lambda model, was: None), "the model is left in eval mode")
entered("left_in_training", counted(after=lambda model, was: model.train()), "the model is left in training mode")
entered("never_in_eval", counted(before=lambda model: None), "measured in training mode")
entered("gradients_on", counted(grad=torch.enable_grad), "gradients are kept")


@wrong("accuracy", "gradients are kept")
def gradients_off_for_good(model, batches):
    torch.set_grad_enabled(False)
    return accuracy(model, batches)


@wrong("accuracy", "every answer is compared with every label")
def labels_with_an_axis(model, batches):
    was_training, hits, count = model.training, 0, 0
    model.eval()
    with torch.no_grad():
        for batch in batches:
            hits += (model(batch.source, batch.lengths)[0].argmax(-1) == batch.labels).sum().item()
            count += len(batch.labels)
    model.train(was_training)
    return hits / count


@wrong("accuracy", "counted in another way", "the batches are put together in another way")
def mean_with_an_axis(model, batches):
    was_training, hits = model.training, []
    model.eval()
    with torch.no_grad():
        for batch in batches:
            hits += [(model(batch.source, batch.lengths)[0].argmax(-1) == batch.labels).float().mean()]
    model.train(was_training)
    return torch.stack(hits).mean().item()


@wrong("accuracy", "the mean of the batches' shares", "the batches are put together in another way")
def mean_of_means(model, batches):
    was_training, shares = model.training, []
    model.eval()
    with torch.no_grad():
        for b in batches:
            shares.append((model(b.source, b.lengths)[0].argmax(-1) == b.labels[:, 0]).float().mean().item())
    model.train(was_training)
    return sum(shares) / len(shares)


@wrong("accuracy", "the batches are put together in another way")
def last_batch_alone(model, batches):
    was_training = model.training
    model.eval()
    with torch.no_grad():
        for b in batches:
            share = (model(b.source, b.lengths)[0].argmax(-1) == b.labels[:, 0]).float().mean().item()
    model.train(was_training)
    return share


@wrong("accuracy", "the batches are put together in another way")
def first_batch_alone(model, batches):
    return accuracy(model, batches[:1])


@wrong("accuracy", "the likeliest sentence, not the likeliest label", FITS)
def over_sentences(model, batches):
    was_training, hits, count = model.training, 0, 0
    model.eval()
    with torch.no_grad():
        for b in batches:
            hits += (model(b.source, b.lengths)[0].argmax(0) == b.labels[:, 0]).sum().item()
            count += len(b.labels)
    model.train(was_training)
    return hits / count


@wrong("accuracy", "the number of right labels, not their share")
def number_alone(model, batches):
    return accuracy(model, batches) * sum(len(b.labels) for b in batches)


@wrong("accuracy", "counted in another way", "off by one constant factor")
def in_percent(model, batches):
    return 100 * accuracy(model, batches)


@wrong("accuracy", "counted in another way")
def the_errors(model, batches):
    return 1 - accuracy(model, batches)


@wrong("accuracy", "the number of right labels, not their share", "the batches are put together in another way")
def per_batch(model, batches):
    return accuracy(model, batches) * sum(len(b.labels) for b in batches) / len(batches)


@wrong("accuracy", NOTHING)
def share_printed(model, batches):
    print(accuracy(model, batches))


@wrong("accuracy", NO_NAME)
def weights_not_taken_off(model, batches):
    was_training, hits, count = model.training, 0, 0
    model.eval()
    with torch.no_grad():
        for b in batches:
            hits += (model(b.source, b.lengths).argmax(-1) == b.labels[:, 0]).sum().item()
            count += len(b.labels)
    model.train(was_training)
    return hits / count


# --- parameter_groups -------------------------------------------------------------------------------------------------


def asking(part):
    return [p for p in part.parameters() if p.requires_grad]


@right("parameter_groups")
def parameter_groups(model, rate, decay):
    groups = []
    for depth, part in enumerate([model.head, *reversed(model.body.encoder.layer), model.body.embeddings]):
        groups.append({"params": [p for p in part.parameters() if p.requires_grad], "lr": rate * decay**depth})
    return groups


@right("parameter_groups")
def multiplied_on_the_way(model, rate, decay):
    groups, lr = [{"params": asking(model.head), "lr": rate}], rate
    for layer in model.body.encoder.layer[::-1]:
        lr *= decay
        groups.append({"params": asking(layer), "lr": lr})
    groups.append({"params": asking(model.body.embeddings), "lr": lr * decay})
    return groups


@right("parameter_groups")
def from_the_bottom(model, rate, decay):
    parts = [model.body.embeddings, *model.body.encoder.layer, model.head]
    return [{"params": asking(x), "lr": rate * decay ** (len(parts) - 1 - i)} for i, x in enumerate(parts)]


@right("parameter_groups")
def a_group_for_each(model, rate, decay):
    groups = []
    layers = model.body.encoder.layer
    for p in model.parameters():
        if not p.requires_grad:
            continue
        depth = len(layers) + 1
        if any(p is q for q in model.head.parameters()):
            depth = 0
        for i in range(len(layers)):
            if any(p is q for q in layers[i].parameters()):
                depth = len(layers) - i
        groups.append({"params": p, "lr": rate * decay**depth})
    return groups


@right("parameter_groups")
def by_name_of_the_parameter(model, rate, decay):
    top, groups = len(model.body.encoder.layer), []
    for name, p in model.named_parameters():
        words = name.split(".")
        depth = 0 if words[0] == "head" else top + 1 if words[1] == "embeddings" else top - int(words[3])
        if p.requires_grad:
            groups.append({"params": [p], "lr": rate * decay**depth})
    return groups


@right("parameter_groups")
def empty_ones_left_out(model, rate, decay):
    parts = [model.head] + list(model.body.encoder.layer)[::-1] + [model.body.embeddings]
    rates = [rate * pow(decay, i) for i in range(len(parts))]
    groups = [dict(params=asking(part), lr=r) for part, r in zip(parts, rates)]
    return [group for group in groups if group["params"]]


@right("parameter_groups")
def filtered(model, rate, decay):
    parts = [model.head]
    for i in range(len(model.body.encoder.layer) - 1, -1, -1):
        parts.append(model.body.encoder.layer[i])
    parts.append(model.body.embeddings)
    out = []
    while parts:
        out.append({"lr": rate, "params": list(filter(lambda p: p.requires_grad, parts.pop(0).parameters()))})
        rate = rate * decay
    return out


@right("parameter_groups")
def yielded(model, rate, decay):
    def groups():
        yield model.head, 0
        n = len(model.body.encoder.layer)
        for i, layer in enumerate(model.body.encoder.layer):
            yield layer, n - i
        yield model.body.embeddings, n + 1

    return [{"params": asking(part), "lr": decay**depth * rate} for part, depth in groups()]


@right("parameter_groups")
def in_a_table(model, rate, decay):
    depths = {"head": 0, "embeddings": 1 + len(model.body.encoder.layer)}
    table = {
        depths["head"]: model.head,
        depths["embeddings"]: model.body.embeddings,
        **{len(model.body.encoder.layer) - i: layer for i, layer in enumerate(model.body.encoder.layer)},
    }
    return [{"params": asking(table[d]), "lr": rate * decay**d} for d in sorted(table)]


@right("parameter_groups")
def generators(model, rate, decay):
    first = {"params": (p for p in model.head.parameters() if p.requires_grad), "lr": rate}
    rest = [*reversed([*model.body.encoder.layer]), model.body.embeddings]
    return [first] + [
        {"params": (p for p in part.parameters() if p.requires_grad), "lr": rate * decay**n}
        for n, part in enumerate(rest, start=1)
    ]


@right("parameter_groups")
def recursive(model, rate, decay):
    def go(parts, lr):
        if not parts:
            return []
        return [{"params": asking(parts[0]), "lr": lr}] + go(parts[1:], lr * decay)

    return go([model.head, *list(model.body.encoder.layer)[::-1], model.body.embeddings], rate)


def grouped(parts, rates, choose=asking):
    return [{"params": choose(part), "lr": lr} for part, lr in zip(parts, rates)]


def powers(rate, decay, count, first=0):
    return [rate * decay ** (first + i) for i in range(count)]


@wrong("parameter_groups", "the lowest layer learns fastest")
def lowest_first(model, rate, decay):
    parts = [model.head, *model.body.encoder.layer, model.body.embeddings]
    return grouped(parts, powers(rate, decay, len(parts)))


@wrong("parameter_groups", "the parts in the wrong order")
def upside_down(model, rate, decay):
    parts = [model.body.embeddings, *model.body.encoder.layer, model.head]
    return grouped(parts, powers(rate, decay, len(parts)))


@wrong("parameter_groups", "the embeddings left out", "parameters that do not move")
def no_embeddings(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer)]
    return grouped(parts, powers(rate, decay, len(parts)))


@wrong("parameter_groups", "one rate for the whole body", "other rates below the head")
def two_groups(model, rate, decay):
    return grouped([model.head, model.body], [rate, rate * decay])


@wrong("parameter_groups", "frozen parameters are handed over")
def all_parameters(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return grouped(parts, powers(rate, decay, len(parts)), lambda part: part.parameters())


@wrong("parameter_groups", "a parameter in two groups")
def body_and_its_parts(model, rate, decay):
    parts = [model.head, model.body, *reversed(model.body.encoder.layer), model.body.embeddings]
    return grouped(parts, powers(rate, decay, len(parts)))


@wrong("parameter_groups", "a parameter in two groups")
def model_first(model, rate, decay):
    parts = [model, *reversed(model.body.encoder.layer), model.body.embeddings]
    return grouped(parts, powers(rate, decay, len(parts)))


@wrong("parameter_groups", "the head's rate is lowered, too")
def head_lowered(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return grouped(parts, powers(rate, decay, len(parts), first=1))


@wrong("parameter_groups", "other rates below the head", "one rate for the whole body")
def embeddings_like_the_last_layer(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    rates = powers(rate, decay, len(parts))
    return grouped(parts, [*rates[:-1], rates[1]])


@wrong("parameter_groups", "other rates below the head", "one rate for the whole body")
def embeddings_like_the_lowest_layer(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    rates = powers(rate, decay, len(parts))
    return grouped(parts, [*rates[:-1], rates[-2]])


@wrong("parameter_groups", "other rates below the head")
def first_layer_at_the_full_rate(model, rate, decay):
    layers = grouped(list(reversed(model.body.encoder.layer)), powers(rate, decay, len(model.body.encoder.layer)))
    last = rate * decay ** len(layers)
    return [{"params": asking(model.head), "lr": rate}, *layers, {"params": asking(model.body.embeddings), "lr": last}]


@wrong("parameter_groups", "other rates below the head", "one rate for the whole body")
def one_layer_expected(model, rate, decay):
    parts = [model.head, model.body.encoder.layer, model.body.embeddings]
    return grouped(parts, powers(rate, decay, 3))


@wrong("parameter_groups", "other rates below the head")
def for_three_layers(model, rate, decay):
    layers = model.body.encoder.layer
    below = [{"params": asking(layer), "lr": rate * decay ** (3 - i)} for i, layer in enumerate(layers)]
    last = {"params": asking(model.body.embeddings), "lr": rate * decay**4}
    return [{"params": asking(model.head), "lr": rate}, *below, last]


@wrong("parameter_groups", "a group without its keys")
def pairs(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return list(zip(map(asking, parts), powers(rate, decay, len(parts))))


@wrong("parameter_groups", "a group without its keys")
def misnamed_key(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [{"parameters": asking(p), "lr": lr} for p, lr in zip(parts, powers(rate, decay, len(parts)))]


@wrong("parameter_groups", "a group without a rate")
def misnamed_rate(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [{"params": asking(p), "rate": lr} for p, lr in zip(parts, powers(rate, decay, len(parts)))]


@wrong("parameter_groups", "a group without its keys")
def an_optimizer(model, rate, decay):
    return torch.optim.Adam(parameter_groups(model, rate, decay))


@wrong("parameter_groups", NOTHING)
def groups_not_returned(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    grouped(parts, powers(rate, decay, len(parts)))


@wrong("parameter_groups", NO_NAME)
def layers_misnamed(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layers), model.body.embeddings]
    return grouped(parts, powers(rate, decay, len(parts)))
