"""Scheduled sampling: train a decoder on tokens that it has predicted itself."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.seq2seq import EncoderDecoder


class OwnTokens(nn.Module):
    """Sometimes give a decoder its own last token in training (scheduled sampling).

    After training, the decoder always has to continue from its own tokens.

    Bengio et al. (2015), "scheduled sampling", but without the schedule: for every
    token, a coin flip decides between the right token and one sampled from the model's
    last prediction. The decoder runs step by step, so this is slower than `decode`.

    Args:
        model: the model to train, which needs no changes for this.
        ratio: probability with which the right token is given.

    Raises:
        ValueError: the model has no decoder.
    """

    def __init__(self, model: nn.Module, ratio: float):
        super().__init__()
        if not isinstance(model, EncoderDecoder):
            raise ValueError(
                "teacher forcing below 1 needs an EncoderDecoder, got"
                f" {type(model).__name__}"
            )
        self.model = model
        self.ratio = ratio

    def forward(
        self,
        source: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"],
        target: Int[Tensor, "B T"],
    ) -> tuple[Float[Tensor, "B T V"], None]:
        """Predict every next token; it is called in the same way as the model.

        It returns no attention weights.
        """
        memory = self.model.encode(source, lengths)
        cache, given, predictions = self.model.start(memory), target[:, :1], []
        for right in target[:, 1:].split(1, dim=1):
            logits, _, cache = self.model.step(given, memory, cache)
            predictions.append(logits)
            said = torch.distributions.Categorical(logits=logits.detach())
            own = said.sample()  # (B, 1)
            given = torch.where(
                torch.rand(right.shape, device=right.device) < self.ratio, right, own
            )
        predictions.append(self.model.step(given, memory, cache)[0])
        return torch.cat(predictions, dim=1), None
