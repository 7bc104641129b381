from torch import nn
from attention_course.masks import padding_mask
from blind import right, wrong

GRAD = "Set `requires_grad` of all the body's parameters to False."
EVAL = "Put the body into eval mode, and keep it there."
BOTH = "`freeze()` does both steps at once."
TRAIN = "`train(mode)` first does what it does in every module, and then puts a frozen body back into eval mode."
FOLLOWS = "A body that is not frozen follows `mode`."
ONLY = "Only `freeze()` freezes the body: if the body's parameters do not require gradients for a different reason, the body still follows `mode`."
RETURNS = "The model itself."
OTHERS = "The result of a call must not depend on earlier calls or on other objects of the same class."


@right("requires_grad_ and eval, a chain at the end")
class SentenceClassifier(nn.Module):
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
        return self


@right("loops over parameters and modules")
class SentenceClassifier(nn.Module):
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
        for parameter in self.body.parameters():
            parameter.requires_grad = False
        self.body.apply(lambda module: module.train(False))
        self.frozen = True

    def train(self, mode=True):
        result = nn.Module.train(self, mode)
        for module in self.body.modules() if self.frozen else ():
            module.train(False)
        return result


@right("a helper that quiets the body, only in train mode")
class SentenceClassifier(nn.Module):
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

    def _quiet(self):
        if self.frozen:
            self.body.train(mode=False)
        return self

    def freeze(self):
        self.frozen = True
        for _, parameter in self.body.named_parameters():
            parameter.requires_grad_(False)
        self._quiet()

    def train(self, mode=True):
        return super().train(mode)._quiet()


@right("the body follows mode and not frozen")
class SentenceClassifier(nn.Module):
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
        self.body = self.body.requires_grad_(False).eval()
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        self.body.train(mode and not self.frozen)
        return self


@wrong('sets an attribute of the body, not of its parameters', breaks=GRAD, name='requires_grad of the module')
class SentenceClassifier(nn.Module):
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
        self.body.requires_grad = False
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong('the body gets into eval mode only with the next call of train', breaks=BOTH, name='no eval mode in freeze')
class SentenceClassifier(nn.Module):
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


@wrong('train and therefore eval return None', breaks=RETURNS, name='train does not return the model')
class SentenceClassifier(nn.Module):
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


@wrong('looks at the parameters instead of at a flag', breaks=ONLY, name='frozen guessed from requires_grad')
class SentenceClassifier(nn.Module):
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
        if not any(p.requires_grad for p in self.body.parameters()):
            self.body.eval()
        return self


@wrong('does not pass mode on, so eval() puts the head into train mode', breaks=TRAIN, name='mode ignored')
class SentenceClassifier(nn.Module):
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
        super().train()
        if self.frozen:
            self.body.eval()
        return self


@wrong('with a frozen body, only the head is switched, and model.training stays as it was', breaks=TRAIN, name='training of the model itself not set')
class SentenceClassifier(nn.Module):
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
        if not self.frozen:
            return super().train(mode)
        self.head.train(mode)
        return self


@wrong('sets the flag of the outermost module only; the dropouts inside follow mode', breaks=EVAL, name='flag of the body instead of eval()')
class SentenceClassifier(nn.Module):
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


@wrong("restores the body's mode before the call, even if somebody had put it into train mode", breaks=TRAIN, name='restores a mode instead of setting eval')
class SentenceClassifier(nn.Module):
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
        before = self.body.training
        super().train(mode)
        if self.frozen:
            self.body.train(before)
        return self


@wrong('keeps the whole model in eval mode once the body is frozen, the head too', breaks=TRAIN, name='head in eval mode, too')
class SentenceClassifier(nn.Module):
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
        return super().train(mode and not self.frozen)


@wrong('keeps the flag in the class, so all classifiers keep their bodies in eval mode', breaks=OTHERS, name='flag shared by all objects')
class SentenceClassifier(nn.Module):
    keep_body = False

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
        type(self).keep_body = True
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if type(self).keep_body:
            self.body.eval()
        return self
