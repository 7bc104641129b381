from blind import right, wrong
from itertools import zip_longest

import torch
from torch import nn

from attention_course.tasks.core import BOS, EOS, PAD, UNK
from attention_course.tasks.sequences import Batch, Example


def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long)


@right("pad_sequence, no pad of one's own")
def collate(task, examples, device="cpu"):
    def rectangle(rows):
        rows = [torch.tensor(row, dtype=torch.long) for row in rows]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD).to(device)

    sources = [list(task.source_vocabulary.encode(e.source)) for e in examples]
    targets = [list(task.target_vocabulary.encode(e.target)) for e in examples]
    return Batch(
        rectangle(sources),
        torch.tensor([len(s) for s in sources], dtype=torch.long),
        rectangle([[BOS] + t for t in targets]),
        rectangle([t + [EOS] for t in targets]),
    )


@right('tensors full of PAD, written row by row, by name')
def collate(task, examples, device="cpu"):
    B = len(examples)
    S = max(len(e.source) for e in examples)
    T = 1 + max(len(e.target) for e in examples)
    source, before, after = (torch.full((B, n), PAD, dtype=torch.long) for n in (S, T, T))
    lengths = torch.zeros(B, dtype=torch.long)
    for b, e in enumerate(examples):
        for s, i in enumerate(task.source_vocabulary.encode(e.source)):
            source[b, s] = i
            lengths[b] += 1
        before[b, 0] = BOS
        t = 0
        for t, i in enumerate(task.target_vocabulary.encode(e.target), start=1):
            before[b, t] = after[b, t - 1] = i
        after[b, t] = EOS
    return Batch(target_out=after.to(device), target_in=before.to(device), lengths=lengths, source=source.to(device))


@right('one rectangle of BOS ids EOS, cut twice; the EOS is taken out by its place')
def collate(task, examples, device="cpu"):
    whole = pad([[BOS, *task.target_vocabulary.encode(e.target), EOS] for e in examples])
    ends = torch.tensor([len(e.target) + 1 for e in examples])
    target_in = whole.masked_fill(torch.arange(whole.size(1)) == ends[:, None], PAD)[:, :-1]
    source = [task.source_vocabulary.encode(e.source) for e in examples]
    return Batch(pad(source).to(device), torch.tensor(list(map(len, source))), target_in.to(device), whole[:, 1:].to(device))


@right('columns by zip_longest')
def collate(task, examples, device="cpu"):
    def turn(rows):
        columns = list(zip_longest(*rows, fillvalue=PAD))
        return torch.tensor(columns, dtype=torch.long).reshape(len(columns), len(rows)).t().contiguous().to(device)

    pairs = [(task.source_vocabulary.encode(e.source), task.target_vocabulary.encode(e.target)) for e in examples]
    lengths = torch.tensor([len(e.source) for e in examples], dtype=torch.long)
    return Batch(turn([s for s, _ in pairs]), lengths, turn([[BOS, *t] for _, t in pairs]), turn([[*t, EOS] for _, t in pairs]))


@wrong('no shift: target_in is target_out', breaks='In training the decoder is given the right token before each position, and has to say the token at it.', name='shift forgotten', subtle=False)
def collate(task, examples, device="cpu"):
    source = [task.source_vocabulary.encode(e.source) for e in examples]
    target = [task.target_vocabulary.encode(e.target) for e in examples]
    lengths = [len(s) for s in source]
    target_in, target_out = [[*t, EOS] for t in target], [[*t, EOS] for t in target]
    return Batch(pad(source).to(device), torch.tensor(lengths), pad(target_in).to(device), pad(target_out).to(device))


@wrong('sources end with EOS, and the lengths count it', breaks='Sources get neither `BOS` nor `EOS`.', name='EOS on the source', subtle=False)
def collate(task, examples, device="cpu"):
    source = [task.source_vocabulary.encode(e.source) + [EOS] for e in examples]
    target = [task.target_vocabulary.encode(e.target) for e in examples]
    lengths = [len(s) for s in source]
    target_in, target_out = [[BOS, *t] for t in target], [[*t, EOS] for t in target]
    return Batch(pad(source).to(device), torch.tensor(lengths), pad(target_in).to(device), pad(target_out).to(device))


@wrong('target_in and target_out swapped', breaks='`Batch(source, lengths, target_in, target_out)`, in this order, with an `Example` for each row', name='fields in the wrong order', subtle=False)
def collate(task, examples, device="cpu"):
    source = [task.source_vocabulary.encode(e.source) for e in examples]
    target = [task.target_vocabulary.encode(e.target) for e in examples]
    lengths = [len(s) for s in source]
    target_in, target_out = [[BOS, *t] for t in target], [[*t, EOS] for t in target]
    return Batch(pad(source).to(device), torch.tensor(lengths), pad(target_out).to(device), pad(target_in).to(device))


@wrong('lengths go to the device, too', breaks='The lengths count the tokens of each source; they stay on the CPU, while the ids go to `device`.', name='lengths not on the CPU', subtle=True)
def collate(task, examples, device="cpu"):
    source = [task.source_vocabulary.encode(e.source) for e in examples]
    target = [task.target_vocabulary.encode(e.target) for e in examples]
    lengths = [len(s) for s in source]
    target_in, target_out = [[BOS, *t] for t in target], [[*t, EOS] for t in target]
    return Batch(*(x.to(device) for x in (pad(source), torch.tensor(lengths), pad(target_in), pad(target_out))))


@wrong('target_out stays on the CPU', breaks='The lengths count the tokens of each source; they stay on the CPU, while the ids go to `device`.', name='one tensor left behind', subtle=True)
def collate(task, examples, device="cpu"):
    source = [task.source_vocabulary.encode(e.source) for e in examples]
    target = [task.target_vocabulary.encode(e.target) for e in examples]
    lengths = [len(s) for s in source]
    target_in, target_out = [[BOS, *t] for t in target], [[*t, EOS] for t in target]
    return Batch(pad(source).to(device), torch.tensor(lengths), pad(target_in).to(device), pad(target_out))


@wrong('lengths count what is not PAD: a source with the token <pad> comes out too short', breaks='The lengths count the tokens of each source; they stay on the CPU, while the ids go to `device`.', name='lengths read off the ids', subtle=True)
def collate(task, examples, device="cpu"):
    source = [task.source_vocabulary.encode(e.source) for e in examples]
    target = [task.target_vocabulary.encode(e.target) for e in examples]
    lengths = (pad(source) != PAD).sum(1)
    target_in, target_out = [[BOS, *t] for t in target], [[*t, EOS] for t in target]
    return Batch(pad(source).to(device), lengths, pad(target_in).to(device), pad(target_out).to(device))


@wrong('targets are cut to 16 places: beyond 15 tokens the EOS is lost', breaks='Teacher forcing needs the target twice: with `BOS` in front, and with `EOS` behind.', name='constant fitted to short targets', subtle=True)
def collate(task, examples, device="cpu"):
    source = [task.source_vocabulary.encode(e.source) for e in examples]
    target = [task.target_vocabulary.encode(e.target) for e in examples]
    lengths = [len(s) for s in source]
    target_in, target_out = [[BOS, *t][:16] for t in target], [[*t, EOS][:16] for t in target]
    return Batch(pad(source).to(device), torch.tensor(lengths), pad(target_in).to(device), pad(target_out).to(device))


@wrong('tokens that the vocabulary does not know are left out', breaks='The lengths count the tokens of each source; they stay on the CPU, while the ids go to `device`.', name='unknown tokens dropped', subtle=True)
def collate(task, examples, device="cpu"):
    source = [[i for i in task.source_vocabulary.encode(e.source) if i != UNK] for e in examples]
    target = [[i for i in task.target_vocabulary.encode(e.target) if i != UNK] for e in examples]
    lengths = torch.tensor([len(s) for s in source])
    target_in, target_out = pad([[BOS, *t] for t in target]), pad([[*t, EOS] for t in target])
    return Batch(pad(source).to(device), lengths, target_in.to(device), target_out.to(device))


@wrong('examples that occur twice make one row', breaks='with an `Example` for each row', name='duplicates lost', subtle=True)
def collate(task, examples, device="cpu"):
    examples = list({(tuple(e.source), tuple(e.target)): e for e in examples}.values())
    source = [task.source_vocabulary.encode(e.source) for e in examples]
    target = [task.target_vocabulary.encode(e.target) for e in examples]
    target_in, target_out = pad([[BOS, *t] for t in target]), pad([[*t, EOS] for t in target])
    return Batch(pad(source).to(device), torch.tensor([len(s) for s in source]), target_in.to(device), target_out.to(device))


@wrong('a batch of one example loses its axis', breaks='A `Batch` of source (B, S), lengths (B,), target_in (B, T) and target_out (B, T).', name='batch axis squeezed away', subtle=True)
def collate(task, examples, device="cpu"):
    source = [task.source_vocabulary.encode(e.source) for e in examples]
    target = [task.target_vocabulary.encode(e.target) for e in examples]
    lengths = [len(s) for s in source]
    target_in, target_out = [[BOS, *t] for t in target], [[*t, EOS] for t in target]
    source, target_in, target_out = (pad(x).squeeze(0).to(device) for x in (source, target_in, target_out))
    return Batch(source, torch.tensor(lengths), target_in, target_out)
