import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded
from blind import right, wrong


def at_end(x, lengths):
    """Pick the vector of each sentence's own last token."""
    return x[torch.arange(x.size(0)), lengths - 1]


class Given(nn.Module):
    """The __init__ of the notebook."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim


@right("packs the batch, and pads it again to all of its positions")
class EncoderPacked(Given):
    def forward(self, source, lengths):
        packed = pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        packed, last = self.rnn(packed)
        states, _ = pad_packed_sequence(
            packed, batch_first=True, total_length=source.size(1)
        )
        return Encoded(
            states,
            last[0],
            padding_mask(lengths.to(source.device), source.size(1)),
        )


@right("the equations of the GRU by hand, and the state stands still on padding")
class EncoderByHand(Given):
    def forward(self, source, lengths):
        w = self.rnn
        n = lengths.to(source.device)
        x = self.embedding(source)
        h = x.new_zeros(source.size(0), self.output_dim)
        states = []
        for s in range(source.size(1)):
            i = nn.functional.linear(x[:, s], w.weight_ih_l0, w.bias_ih_l0)
            o = nn.functional.linear(h, w.weight_hh_l0, w.bias_hh_l0)
            ir, iz, i_n = i.chunk(3, -1)
            hr, hz, h_n = o.chunk(3, -1)
            z = torch.sigmoid(iz + hz)
            new = (i_n + torch.sigmoid(ir + hr) * h_n).tanh()
            h = torch.where((n > s)[:, None], (1 - z) * new + z * h, h)
            states.append(h)
        return Encoded(torch.stack(states, 1), h, padding_mask(n, source.size(1)))


@right("one call of the GRU per position, the mask by comparison")
class EncoderOneByOne(Given):
    def forward(self, source, lengths):
        lengths = lengths.to(source.device)
        h, states = None, []
        for token in source.split(1, dim=1):
            out, h = self.rnn(self.embedding(token), h)
            states += [out]
        states = torch.cat(states, dim=1)
        where = torch.arange(source.size(1), device=source.device)
        mask = where.view(1, 1, -1) < lengths.view(-1, 1, 1)
        rows = torch.arange(len(source), device=source.device)
        return Encoded(mask=mask, final=states[rows, lengths - 1], states=states)


@right("zeroes states on padding, and picks the last with a boolean mask")
class EncoderZeroed(Given):
    def forward(self, source, lengths):
        n = lengths.to(source.device)
        size = source.shape[-1]
        mask = padding_mask(n, size)
        earlier = padding_mask(n - 1, size)
        states, _ = self.rnn(self.embedding(source))
        final = states[(mask ^ earlier)[:, 0]]
        return Encoded(states.masked_fill(~mask.mT, 0), final, mask)


@wrong(
    "takes the last state that the GRU returns",
    breaks="`final` (B, E), the state at each sentence's own end",
    name="the last column",
)
class EncoderLastColumn(Given):
    def forward(self, source, lengths):
        states, last = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last[0], mask)


@wrong(
    "the mask is where the id is not 0",
    breaks="The lengths alone say what is a token and what is padding: any id may stand"
    " in either place.",
    name="id 0 is taken for padding",
    subtle=True,
)
class EncoderIdMask(Given):
    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        return Encoded(states, at_end(states, lengths), (source != 0)[:, None])


@wrong(
    "the mask is made from the lengths on the CPU",
    breaks="Give it lengths that are where `source` is: there `states` and `final` are,"
    " too.",
    name="mask left on the CPU",
    subtle=True,
)
class EncoderCpuMask(Given):
    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths, source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "the mask is as wide as the longest sentence",
    breaks="`mask` (B, 1, S), True on tokens",
    name="mask narrower than the batch",
    subtle=True,
)
class EncoderNarrowMask(Given):
    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), int(lengths.max()))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "packs and unpacks without saying to how many positions",
    breaks="`states` (B, S, E), the state at every position",
    name="unpacked to the longest sentence only",
    subtle=True,
)
class EncoderTotalLength(Given):
    def forward(self, source, lengths):
        packed = pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        packed, last = self.rnn(packed)
        states, _ = pad_packed_sequence(packed, batch_first=True)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last[0], mask)


@wrong(
    "goes on from the state in which the batch before has left it",
    breaks="let one recurrent layer read them from left to right",
    name="state kept between calls",
    subtle=True,
)
class EncoderKeepsState(Given):
    hidden = None

    def forward(self, source, lengths):
        x = self.embedding(source)
        if self.hidden is not None and self.hidden.size(1) != len(x):
            self.hidden = None
        states, last = self.rnn(x, self.hidden)
        self.hidden = last.detach()
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "writes id 0 over the padding of the source, so that it reads nothing odd there",
    breaks="Leave what you are handed unchanged.",
    name="source changed in place",
    subtle=True,
)
class EncoderCleansSource(Given):
    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        source[~mask[:, 0]] = 0
        states, _ = self.rnn(self.embedding(source))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "embeds id 0 as zeros, as padding_idx would",
    breaks="any id may stand in either place",
    name="id 0 loses its embedding",
    subtle=True,
)
class EncoderPaddingIdx(Given):
    def forward(self, source, lengths):
        x = self.embedding(source) * (source != 0)[..., None]
        states, _ = self.rnn(x)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "zeroes embeddings of padding, and trusts the last state of the GRU after that",
    breaks="`final` (B, E), the state at each sentence's own end",
    name="thinks that zeros as input leave the state alone",
)
class EncoderZeroInput(Given):
    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        x = self.embedding(source).masked_fill(~mask.transpose(1, 2), 0.0)
        states, last = self.rnn(x)
        return Encoded(states, last.squeeze(0), mask)


@wrong(
    "hands the GRU the batch with positions first, as tutorials do",
    breaks="let one recurrent layer read them from left to right",
    name="reads across the sentences of the batch",
)
class EncoderTimeFirst(Given):
    def forward(self, source, lengths):
        x = self.embedding(source).transpose(0, 1)
        states = self.rnn(x)[0].transpose(0, 1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)
