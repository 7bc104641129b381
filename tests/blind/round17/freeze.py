import torch
from torch import nn
from attention_course.masks import padding_mask
from blind import right, wrong

STEP_1 = "Set `requires_grad` of all the body's parameters to False."
STEP_2 = "Put the body into eval mode, and keep it there."
AT_ONCE = "`freeze()` does both steps at once and leaves the head as it is."
TRAIN = "`train(mode)` first does what it does in every module, and then puts a frozen body back into eval mode."
FOLLOWS = "A body that is not frozen follows `mode`."
ONLY = "Only `freeze()` freezes the body: if the body's parameters do not require gradients for a different reason, the body still follows `mode`."
NOW_ON = "Freeze the body from now on: no gradients, eval mode."
ITSELF = "The model itself."
OTHERS = "The result of a call must not depend on earlier calls or on other objects of the same class."


class Base(nn.Module):
    """What the lab has already written."""

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


# ---------------------------------------------------------------- right answers


@right("loops over the parameters; train passes each child the mode that it should have")
class SentenceClassifier(Base):
    def freeze(self):
        self.frozen = True
        for parameter in self.body.parameters():
            parameter.requires_grad = False
        self.body.eval()

    def train(self, mode=True):
        self.training = mode
        for child in self.children():
            child.train(mode and not (self.frozen and child is self.body))
        return self


@right("a list of the modules that stay in eval mode instead of the attribute frozen")
class SentenceClassifier(Base):
    def __init__(self, body, head):
        super().__init__(body, head)
        del self.frozen
        self.still = []  # a plain list, so nothing is registered twice

    def freeze(self):
        self.body.requires_grad_(False)
        self.still = [self.body]
        for module in self.still:
            module.train(False)
        return self

    def train(self, mode=True):
        nn.Module.train(self, mode)
        for module in self.still:
            module.eval()
        return self


@right("one step for each of the body's modules with apply, also when train is called")
class SentenceClassifier(Base):
    @staticmethod
    def settle(module):
        module.training = False
        for parameter in module.parameters(recurse=False):
            parameter.requires_grad_(False)

    def freeze(self):
        self.frozen = True
        self.body.apply(self.settle)

    def train(self, mode=True):
        same = super().train(mode)
        if self.frozen:
            for module in self.body.modules():
                module.training = False
        return same


@right("remembers the freezing in a buffer that is not saved")
class SentenceClassifier(Base):
    def __init__(self, body, head):
        super().__init__(body, head)
        self.register_buffer("cold", torch.zeros((), dtype=torch.bool), persistent=False)

    def freeze(self):
        self.cold = torch.ones_like(self.cold)
        for _, parameter in self.body.named_parameters():
            parameter.requires_grad_(False)
        self.body.train(mode=False)

    def train(self, mode=True):
        super().train(mode=mode)
        self.body.train(mode and not bool(self.cold))
        return self


# ---------------------------------------------------------------- wrong answers


@wrong("sets the attribute requires_grad of the module",
       breaks=STEP_1, name="the parameters still require gradients")
class SentenceClassifier(Base):
    def freeze(self):
        self.frozen = True
        self.body.requires_grad = False
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong("train ends without a return",
       breaks=ITSELF, name="train returns None")
class SentenceClassifier(Base):
    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()


@wrong("freeze leaves the eval mode to the next call of train",
       breaks=AT_ONCE, name="the body stays in train mode until train is called")
class SentenceClassifier(Base):
    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong("calls super().train() without the mode when the body is frozen",
       breaks=TRAIN, name="eval() leaves the head of a frozen model in train mode")
class SentenceClassifier(Base):
    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        if not self.frozen:
            return super().train(mode)
        super().train()
        self.body.eval()
        return self


@wrong("freeze calls self.train with the mode of the whole model to put the body into eval mode",
       breaks=AT_ONCE, name="a head in another mode than the model is switched")
class SentenceClassifier(Base):
    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        self.train(self.training)

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong("train asks whether any parameter of the body requires a gradient",
       breaks=ONLY, name="infers the freezing from requires_grad")
class SentenceClassifier(Base):
    def freeze(self):
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if not any(p.requires_grad for p in self.body.parameters()):
            self.body.eval()
        return self


@wrong("stores in the class, not in the object, that the body is frozen",
       breaks=OTHERS, name="one frozen model freezes the bodies of all others")
class SentenceClassifier(Base):
    frozen = False

    def __init__(self, body, head):
        nn.Module.__init__(self)
        self.body, self.head = body, head

    def freeze(self):
        type(self).frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong("train switches the head and the body, but not the model's own training flag if frozen",
       breaks=TRAIN, name="model.training no longer tells the mode")
class SentenceClassifier(Base):
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


@wrong("freezes the parameters of the body's children, not those that the body holds itself",
       breaks=STEP_1, name="a parameter directly in the body is still trained")
class SentenceClassifier(Base):
    def freeze(self):
        self.frozen = True
        parts = list(self.body.children())
        for part in parts or [self.body]:
            for parameter in part.parameters():
                parameter.requires_grad = False
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong("freeze turns the attribute frozen over, so a second call takes the first one back",
       breaks=NOW_ON, name="freezing twice thaws the body")
class SentenceClassifier(Base):
    def freeze(self):
        self.frozen = not self.frozen
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self
