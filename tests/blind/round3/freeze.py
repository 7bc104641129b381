import torch
from torch import nn

from attention_course.masks import padding_mask
from blind import right, wrong


class Classifier(nn.Module):
    """The notebook's __init__ and forward; every answer has them."""

    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]  # (B, S)
        states = self.body(
            input_ids=source, attention_mask=mask.long()
        ).last_hidden_state
        logits = self.head(states, mask)
        return logits, None  # no weights


# ---------------------------------------------------------------- right


@right("train goes over the children by hand, as nn.Module does")
class Children(Classifier):
    def freeze(self):
        self.frozen = True
        for parameter in self.body.parameters():
            parameter.requires_grad = False
        self.body.train(False)

    def train(self, mode=True):
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode and not (self.frozen and child is self.body))
        return self


@right("super().train in a try, the body put back in finally")
class Finally(Classifier):
    def freeze(self):
        self.body.apply(lambda module: module.requires_grad_(False))
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        try:
            return super().train(mode)
        finally:
            if self.frozen:
                self.body.eval()


@right("a chain of calls: eval().requires_grad_() returns the body")
class Chain(Classifier):
    def freeze(self):
        self.body, self.frozen = self.body.eval().requires_grad_(False), True

    def train(self, mode=True):
        nn.Module.train(self, mode)
        self.body.train(mode and not self.frozen)
        return self


@right("freeze detaches the parameters in place; train says which mode by a table")
class Detach(Classifier):
    def freeze(self):
        setattr(self, "frozen", True)
        for _, p in self.body.named_parameters():
            p.detach_()
        self.body.eval()

    def train(self, mode=True):
        me = super().train(mode)
        me.body.train({False: mode, True: False}[me.frozen])
        return me


# ---------------------------------------------------------------- wrong


@wrong(
    "freeze leaves the mode to the next call of train",
    breaks="`freeze()` does both, at once.",
    name="eval only with the next train",
    subtle=True,
)
class EvalLater(Classifier):
    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    "train asks the parameters whether the body is frozen",
    breaks="`freeze()` alone freezes: a body whose parameters ask for no gradient for another reason follows `mode`.",
    name="no gradient taken for frozen",
    subtle=True,
)
class AsksParameters(Classifier):
    def freeze(self):
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if not any(p.requires_grad for p in self.body.parameters()):
            self.body.eval()
        return self


@wrong(
    "with a frozen body only the head is switched: the model's own `training` stays",
    breaks="`train(mode)` does what it does in every module, and then keeps a frozen body in eval mode",
    name="the model's own mode is forgotten",
    subtle=True,
)
class OnlyTheHead(Classifier):
    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        if self.frozen:
            self.head.train(mode)
            self.body.eval()
            return self
        return super().train(mode)


@wrong(
    "train returns nothing, and so does eval",
    breaks="it returns the module, and so should yours",
    name="train returns None",
    subtle=True,
)
class ReturnsNothing(Classifier):
    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()


@wrong(
    "switches the body's nn.Dropout modules to eval, and nothing else in it",
    breaks="It stays in eval mode.",
    name="only nn.Dropout in eval mode",
    subtle=True,
)
class DropoutAlone(Classifier):
    def _quiet(self):
        for module in self.body.modules():
            if isinstance(module, nn.Dropout):
                module.eval()

    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        self._quiet()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self._quiet()
        return self


@wrong(
    "train sets the gradients as well: a body that is not frozen gets them back whoever took them",
    breaks="`train(mode)` does what it does in every module, and then keeps a frozen body in eval mode; a body that is not frozen follows `mode`.",
    name="train changes requires_grad",
    subtle=True,
)
class TrainUnfreezes(Classifier):
    def freeze(self):
        self.frozen = True
        self.train(self.training)

    def train(self, mode=True):
        super().train(mode)
        for p in self.body.parameters():
            p.requires_grad = not self.frozen
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    "the whole model is kept in eval mode once the body is frozen: the head has no dropout in training",
    breaks="`train(mode)` does what it does in every module, and then keeps a frozen body in eval mode",
    name="the head is kept in eval mode, too",
    subtle=True,
)
class HeadToo(Classifier):
    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        return super().train(mode and not self.frozen)


@wrong(
    "freezes the weights and leaves out biases and LayerNorm, as lists for weight decay do",
    breaks="Its parameters ask for no gradient: they are not trained",
    name="biases are not frozen",
    subtle=True,
)
class NotTheBiases(Classifier):
    def freeze(self):
        self.frozen = True
        for name, p in self.body.named_parameters():
            if not any(part in name for part in ("bias", "LayerNorm", "norm")):
                p.requires_grad = False
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    "sets an attribute of the module instead of its parameters",
    breaks="Its parameters ask for no gradient: they are not trained, and nothing is sent back through the blocks.",
    name="module.requires_grad = False",
)
class AttributeOfTheModule(Classifier):
    def freeze(self):
        self.frozen = True
        self.body.requires_grad = False
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    "freeze() a second time takes the freezing back",
    breaks="Keep the body as it is from now on: no gradients, eval mode.",
    name="freeze is a switch",
    subtle=True,
)
class Toggle(Classifier):
    def freeze(self):
        self.frozen = not self.frozen
        self.body.requires_grad_(not self.frozen)
        self.train(self.training)

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self
