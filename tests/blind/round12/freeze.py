import torch
from torch import nn

from attention_course.masks import padding_mask

from blind import right, wrong

GRADS = "Set `requires_grad` of all the body's parameters to False."
FOLLOWS = "A body that is not frozen follows `mode`."
EVAL = "Put the body into eval mode, and keep it there."
BOTH = "`freeze()` does both steps at once."
TRAIN = "`train(mode)` first does what it does in every module, and then puts a frozen body back into eval mode."
ONLY = "Only `freeze()` freezes the body: if the body's parameters do not require gradients for a different reason, the body still follows `mode`."
RETURN = "It returns the module, and your `train` must return it, too."
HEAD = "How do you train a head and leave the body below it exactly as it is?"
DROPOUT = "Otherwise the body's dropout would change the states that the head learns from."


# wrong, plain


@wrong(
    "sets requires_grad of the module, which has no effect on its parameters",
    GRADS,
    "requires_grad of the module, not of its parameters",
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head."""

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

    def freeze(self):
        self.body.requires_grad = False
        self.frozen = True
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    "train returns nothing",
    RETURN,
    "train does not return the model",
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head."""

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

    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()


@wrong(
    "train puts the frozen body into train mode as well",
    EVAL,
    "body does not stay in eval mode",
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head."""

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

    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        return super().train(mode)


@wrong(
    "freezes the head, too",
    HEAD,
    "head frozen as well",
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head."""

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

    def freeze(self):
        self.frozen = True
        for parameter in self.parameters():
            parameter.requires_grad = False
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


# wrong, subtle


@wrong(
    "freeze leaves the body in train mode until train or eval is called next",
    BOTH,
    "freeze does not put the body into eval mode",
    subtle=True,
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head."""

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

    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    "takes any body whose parameters require no gradients for a frozen one",
    ONLY,
    "frozen or not judged by the parameters",
    subtle=True,
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head."""

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

    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if not any(parameter.requires_grad for parameter in self.body.parameters()):
            self.body.eval()
        return self


@wrong(
    "train leaves a body in eval mode if it finds it there, frozen or not",
    FOLLOWS,
    "a body that is not frozen stays in eval mode",
    subtle=True,
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head."""

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

    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        resting = not self.body.training
        super().train(mode)
        if resting:
            self.body.eval()
        return self


@wrong(
    "train sets the body's own flag only: the dropout inside it stays in train mode",
    DROPOUT,
    "parts of the body in train mode",
    subtle=True,
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head."""

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

    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.training = False
        return self


@wrong(
    "with a frozen body, train switches the head only, and model.training stays as it was",
    TRAIN,
    "the model's own mode not switched",
    subtle=True,
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head."""

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

    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        if self.frozen:
            self.head.train(mode)
            return self
        return super().train(mode)


@wrong(
    "freezes the body's parts, but not the parameters that belong to the body itself",
    GRADS,
    "the body's own parameters forgotten",
    subtle=True,
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head."""

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

    def freeze(self):
        self.frozen = True
        for part in self.body.children():
            part.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


# right


@right("train calls the class of all modules by name, and the body once more")
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head."""

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

    def freeze(self):
        self.frozen = True
        for parameter in self.body.parameters():
            parameter.requires_grad = False
        self.body.train(False)

    def train(self, mode=True):
        nn.Module.train(self, mode)
        self.body.train(mode and not self.frozen)
        return self


@right("a helper that settles the body, called by both methods; freeze returns the model")
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head."""

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

    def settle(self):
        if self.frozen:
            self.body.eval()
        return self

    def freeze(self):
        self.body.requires_grad_(requires_grad=False)
        self.frozen = True
        return self.settle()

    def train(self, mode=True):
        return super().train(mode).settle()


@right("parameters frozen module by module with apply")
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head."""

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

    def freeze(self):
        def still(module):
            for parameter in module.parameters(recurse=False):
                parameter.requires_grad_(False)

        self.body.apply(still).eval()
        self.frozen = True

    def train(self, mode: bool = True):
        result = super().train(mode=mode)
        if self.frozen and mode:
            self.body.eval()
        return result


@right("sets the flag of every module by hand after train, and counts what it froze")
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head."""

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

    def freeze(self):
        self.frozen = True
        self.frozen_numbers = 0
        for _, parameter in self.body.named_parameters():
            parameter.requires_grad = False
            self.frozen_numbers += parameter.numel()
        for module in self.body.modules():
            module.training = False

    def train(self, mode=True):
        super().train(mode)
        if not self.frozen:
            return self
        for module in self.body.modules():
            module.training = False
        return self
