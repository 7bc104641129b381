import torch
from attention_course.masks import padding_mask
from blind import right, wrong
from torch import nn

GRADIENTS = "Set `requires_grad` of all the body's parameters to False."
EVAL = "Put the body into eval mode, and keep it there."
BOTH = "`freeze()` does both steps at once and leaves the head as it is."
TRAIN = "`train(mode)` first does what it does in every module, and then puts a frozen body back into eval mode."
FOLLOWS = "A body that is not frozen follows `mode`."
ONLY = "Only `freeze()` freezes the body: if the body's parameters do not require gradients for a different reason, the body still follows `mode`."
OTHERS = "The result of a call must not depend on earlier calls or on other objects of the same class."
ITSELF = "The model itself."
NOW = "Freeze the body from now on: no gradients, eval mode."


class Given(nn.Module):
    """The given lines of the lab."""

    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]
        states = self.body(input_ids=source, attention_mask=mask.long()).last_hidden_state
        logits = self.head(states, mask)
        return logits, None

    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@right("goes over the parameters and modules one by one")
class SentenceClassifier(Given):
    def freeze(self):
        for parameter in self.body.parameters():
            parameter.requires_grad = False
        self.body.apply(lambda module: module.train(False))
        self.frozen = True

    def train(self, mode=True):
        nn.Module.train(self, mode)
        for module in self.body.modules() if self.frozen else ():
            module.train(False)
        return self


@right("sets the flag of the model, and calls train of every child with its own mode")
class SentenceClassifier(Given):
    def freeze(self):
        self.frozen = True
        self.body.train(False).requires_grad_(False)

    def train(self, mode=True):
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        if self.frozen:
            self.body.train(False)
        return self


@right("always tells the body its mode a second time: mode and not frozen")
class SentenceClassifier(Given):
    def freeze(self):
        [p.requires_grad_(False) for _, p in self.body.named_parameters()]
        self.frozen = self.body.eval() is not None

    def train(self, mode=True):
        model = super().train(mode)
        model.body.train(model.training and not model.frozen)
        return model


@right("freezes module by module, and chooses from a table what follows super().train")
class SentenceClassifier(Given):
    def freeze(self):
        self.body.eval()
        for module in self.body.modules():
            for parameter in module.parameters(recurse=False):
                parameter.requires_grad_(False)
        self.frozen = True

    def train(self, mode=True):
        result = super().train(mode)
        {True: self.body.eval, False: lambda: None}[self.frozen]()
        return result


@wrong("sets an attribute `requires_grad` of the body, which has no effect on the parameters", breaks=GRADIENTS, name="requires_grad set on the module")
class SentenceClassifier(Given):
    def freeze(self):
        self.body.requires_grad = False
        self.body.eval()
        self.frozen = True


@wrong("freeze only stores the flag: the body stays in train mode until the next call of train", breaks=BOTH, name="eval mode only at the next train()")
class SentenceClassifier(Given):
    def freeze(self):
        self.body.requires_grad_(False)
        self.frozen = True


@wrong("takes a body for frozen if none of its parameters requires a gradient, whoever did this", breaks=ONLY, name="frozen by requires_grad")
class SentenceClassifier(Given):
    def train(self, mode=True):
        super().train(mode)
        if not any(p.requires_grad for p in self.body.parameters()):
            self.body.eval()
        return self


@wrong("returns what body.eval() returns if the body is frozen: the body, not the model", breaks=ITSELF, name="train returns the body")
class SentenceClassifier(Given):
    def train(self, mode=True):
        super().train(mode)
        return self.body.eval() if self.frozen else self


@wrong("freeze calls self.train(), which puts the head into train mode even if the model was in eval mode", breaks=BOTH, name="freeze switches the head to train mode")
class SentenceClassifier(Given):
    def freeze(self):
        self.body.requires_grad_(False)
        self.frozen = True
        self.train()


@wrong("with a frozen body, train switches only the head and leaves the model's own `training` as it was", breaks=TRAIN, name="the model's own mode is not set")
class SentenceClassifier(Given):
    def train(self, mode=True):
        if self.frozen:
            self.head.train(mode)
            return self
        return super().train(mode)


@wrong("puts only the nn.Dropout modules of the body into eval mode; the body itself, its F.dropout and its batch norms stay in train mode", breaks=EVAL, name="only the dropout modules in eval mode")
class SentenceClassifier(Given):
    def rest(self):
        for module in self.body.modules():
            if isinstance(module, nn.Dropout):
                module.eval()

    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        self.rest()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.rest()
        return self


@wrong("freeze toggles: a second call of freeze thaws the mode again", breaks=NOW, name="second freeze unfreezes")
class SentenceClassifier(Given):
    def freeze(self):
        self.frozen = not self.frozen
        self.body.requires_grad_(False)
        self.body.eval()


@wrong("notes in the class that a body is frozen: every other model then keeps its body in eval mode, too", breaks=OTHERS, name="frozen shared by all models")
class SentenceClassifier(Given):
    kept = []

    def freeze(self):
        super().freeze()
        self.kept.append(True)

    def train(self, mode=True):
        super().train(mode)
        if self.kept:
            self.body.eval()
        return self


@wrong("eval() (train(False)) ends the freezing: at the next train() the body is in train mode", breaks=EVAL, name="eval() thaws the body")
class SentenceClassifier(Given):
    def train(self, mode=True):
        self.frozen = self.frozen and mode
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self
