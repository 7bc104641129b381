"""Answers to freeze."""

from answers.core import draw, right, wide, with_part, wrong
from answers.signs import NO_NAME
from torch import nn

from attention_course.masks import padding_mask
from nbjudge.question import Request


@wide("freeze")
def any_depth(g):
    for layers in range(5):
        for freezes in (False, True):
            weights = {
                "body.embeddings.0.weight": draw(g, 7, 4),
                "head.inner.weight": draw(g, 4, 4),
            }
            weights |= {
                f"body.encoder.layer.{i}.0.weight": draw(g, 4, 4) for i in range(layers)
            }
            weights |= {
                f"body.encoder.layer.{i}.0.bias": draw(g, 4) for i in range(layers)
            }
            weights |= {
                "head.inner.bias": draw(g, 4),
                "head.outer.weight": draw(g, 6, 4),
                "head.outer.bias": draw(g, 6),
            }
            yield Request((freezes,), (layers,), weights)


class Classifier(nn.Module):
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]
        states = self.body(
            input_ids=source, attention_mask=mask.long()
        ).last_hidden_state
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


right("freeze")(Classifier)


@right("freeze")
@with_part(Classifier, "freeze")
def one_by_one(self):
    for parameter in self.body.parameters():
        parameter.requires_grad = False
    self.frozen = True
    self.train(self.training)


@right("freeze")
@with_part(Classifier, "freeze")
def by_name(self):
    for name, parameter in self.named_parameters():
        if name.startswith("body."):
            parameter.requires_grad_(False)
    self.body.train(False)
    self.frozen = True


@right("freeze")
@with_part(Classifier, "freeze")
def all_but_the_head(self):
    self.requires_grad_(False)
    self.head.requires_grad_(True)
    self.frozen = True
    self.body = self.body.eval()
    return self


@right("freeze")
@with_part(Classifier, "train")
def one_part_after_the_other(self, mode=True):
    self.training = mode
    self.head.train(mode)
    self.body.train(mode and not self.frozen)
    return self


@right("freeze")
@with_part(Classifier, "train")
def every_module(self, mode=True):
    for module in self.modules():
        module.training = mode
    if self.frozen:
        for module in self.body.modules():
            module.training = False
    return self


@right("freeze")
@with_part(Classifier, "train")
def back_to_eval(self, mode=True):
    result = nn.Module.train(self, mode)
    self.body.train(mode if not self.frozen else False)
    return result


@right("freeze")
@with_part(Classifier, "train")
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


right("freeze", "the_body_refuses")(
    classifier("the_body_refuses", freeze=_shut, train=_as_ever)
)


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


right("freeze", "another_attribute")(
    classifier("another_attribute", freeze=_noted, train=_looked_up)
)


@right("freeze")
@with_part(Classifier, "train")
def children_in_turn(self, mode=True):
    self.training = mode
    for name, child in self.named_children():
        child.train(mode if name != "body" or not self.frozen else False)
    return self


@right("freeze")
@with_part(Classifier, "freeze")
def module_by_module(self):
    self.frozen = True
    for module in self.body.modules():
        module.training = False
        for parameter in module.parameters(recurse=False):
            parameter.requires_grad = False


@wrong("freeze", "dropout goes on in the frozen body")
@with_part(Classifier, "train")
def train_as_before(self, mode=True):
    return super(Classifier, self).train(mode)


@wrong("freeze", "requires_grad set on the module")
@with_part(Classifier, "freeze")
def attribute_of_the_module(self):
    self.frozen = True
    self.body.requires_grad = False
    self.body.eval()


@wrong("freeze", "the head is frozen, too")
@with_part(Classifier, "freeze")
def everything_frozen(self):
    self.frozen = True
    for parameter in self.parameters():
        parameter.requires_grad = False
    self.body.eval()


@wrong("freeze", "other parameters are frozen")
@with_part(Classifier, "freeze")
def embeddings_only(self):
    self.frozen = True
    self.body.embeddings.requires_grad_(False)
    self.body.eval()


@wrong("freeze", "other parameters are frozen")
@with_part(Classifier, "freeze")
def layers_only(self):
    self.frozen = True
    for layer in self.body.encoder.layer:
        layer.requires_grad_(False)
    self.body.eval()


@wrong("freeze", "dropout goes on in the frozen body")
@with_part(Classifier, "freeze")
def flag_forgotten(self):
    self.body.requires_grad_(False)
    self.body.eval()


@wrong("freeze", "dropout goes on in the frozen body")
@with_part(Classifier, "freeze")
def only_at_the_next_train(self):
    self.frozen = True
    self.body.requires_grad_(False)


@wrong(
    "freeze", "something rests that should train", "the head is never in training mode"
)
@with_part(Classifier, "freeze")
def all_of_it_in_eval(self):
    self.frozen = True
    self.body.requires_grad_(False)
    self.eval()


@wrong("freeze", "something rests that should train", "the mode is ignored")
@with_part(Classifier, "train")
def trains_nothing_if_frozen(self, mode=True):
    if self.frozen:
        return self.eval() if mode and self.training else self
    return nn.Module.train(self, mode)


@wrong("freeze", "dropout goes on in the frozen body")
@with_part(Classifier, "train")
def eval_before_train(self, mode=True):
    if self.frozen:
        self.body.eval()
    return nn.Module.train(self, mode)


@wrong("freeze", "train does not return the model")
@with_part(Classifier, "train")
def returns_the_body(self, mode=True):
    nn.Module.train(self, mode)
    return self.body.eval() if self.frozen else None


@wrong("freeze", "train calls itself")
@with_part(Classifier, "train")
def endless(self, mode=True):
    self.train(mode)
    if self.frozen:
        self.body.eval()
    return self


@wrong("freeze", "the body is always in eval mode")
@with_part(Classifier, "train")
def never_asks(self, mode=True):
    super(Classifier, self).train(mode)
    self.body.train(False)
    return self


@wrong(
    "freeze",
    "the mode is ignored",
    "something rests that should train",
    "dropout goes on in the frozen body",
)
@with_part(Classifier, "train")
def mode_not_handed_on(self, mode=True):
    super(Classifier, self).train()
    if self.frozen:
        self.body.eval()
    return self


@wrong("freeze", "other parameters are frozen")
@with_part(Classifier, "freeze")
def one_layer_only(self):
    self.frozen = True
    self.body.encoder.layer[-1].requires_grad_(False)
    self.body.eval()


@wrong("freeze", "dropout goes on in the frozen body")
@with_part(Classifier, "train")
def layers_in_eval(self, mode=True):
    nn.Module.train(self, mode)
    if self.frozen:
        self.body.encoder.eval()
    return self


@wrong("freeze", "something rests that should train")
@with_part(Classifier, "train")
def the_head_in_eval(self, mode=True):
    nn.Module.train(self, mode)
    if self.frozen:
        self.body.eval()
        self.head.dropout.eval()
    return self


@wrong("freeze", NO_NAME)
@with_part(Classifier, "freeze")
def misspelt_freeze(self):
    self.frozen = True
    self.body.require_grad_(False)
