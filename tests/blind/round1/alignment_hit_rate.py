from blind import right, wrong
import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory


class Decoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.score = score

    def remember(self, encoded):
        key = self.score.project_keys(encoded.states)
        return Memory(
            key,
            encoded.states,
            encoded.mask,
            state=torch.tanh(self.bridge(encoded.final)),
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        cache, logits, weights = self.start(memory), [], []
        for token in target.split(1, dim=1):
            step_logits, step_weights, cache = self.step(token, memory, cache)
            logits.append(step_logits)
            weights.append(step_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


@right('two counters')
def alignment_hit_rate(weights, gold):

    hits = total = 0
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if not positions:
                continue
            total += 1
            hits += any(row) and row.index(max(row)) in positions
    return hits / total if total else 0.0


@right('by index, strictly larger than all before')
def alignment_hit_rate(weights, gold):

    found = []
    for i in range(len(gold)):
        for t in range(min(len(gold[i]), len(weights[i]))):
            if len(gold[i][t]) == 0:
                continue
            best, where = 0, None
            for s, weight in enumerate(weights[i][t]):
                if weight > best:
                    best, where = weight, s
            found.append(where is not None and where in gold[i][t])
    return sum(found) / max(len(found), 1)


@right('float64 tensors row by row')
def alignment_hit_rate(weights, gold):

    def hit(row, positions):
        row = torch.tensor(row, dtype=torch.float64)
        if row.count_nonzero() == 0:
            return 0.0
        return float(int((row == row.max()).nonzero()[0]) in positions)

    pairs = [p for rows, sets in zip(weights, gold) for p in zip(rows, sets) if p[1]]
    return sum(hit(*p) for p in pairs) / len(pairs) if pairs else 0.0


@right('sorting of copies')
def alignment_hit_rate(weights, gold):

    hits, total = 0, 0
    for rows, sets in zip(weights, gold):
        for t, positions in enumerate(list(sets)[: len(rows)]):
            if positions:
                order = sorted(range(len(rows[t])), key=lambda s: (-rows[t][s], s))
                total += 1
                hits += bool(order and rows[t][order[0]] != 0 and order[0] in positions)
    return float(hits) / total if total > 0 else 0.0


@wrong(
    'empty gold sets count as misses',
    breaks='A position with an empty gold set (a hyphen came from nowhere) does not count at all.',
    name='empty gold sets counted',
    subtle=False,
)
def alignment_hit_rate(weights, gold):

    found = [any(row) and row.index(max(row)) in positions
             for rows, sets in zip(weights, gold) for row, positions in zip(rows, sets)]
    return sum(found) / len(found) if found else 0.0


@wrong(
    'a row of zeros hits if position 0 is gold',
    breaks='A row in which all weights are zero points nowhere. That is no hit.',
    name='a row of zeros points at 0',
    subtle=False,
)
def alignment_hit_rate(weights, gold):

    found = [row.index(max(row)) in positions
             for rows, sets in zip(weights, gold) for row, positions in zip(rows, sets) if positions]
    return sum(found) / len(found) if found else 0.0


@wrong(
    'divides by the number of all rows',
    breaks='An example may have more rows of weights than gold sets (the row of the end marker is the last): the rows beyond do not count.',
    name='rows beyond the gold sets counted',
    subtle=False,
)
def alignment_hit_rate(weights, gold):

    found = [any(row) and row.index(max(row)) in positions
             for rows, sets in zip(weights, gold) for row, positions in zip(rows, sets) if positions]
    empty = sum(not positions for sets in gold for positions in sets)
    total = sum(len(rows) for rows in weights) - empty
    return sum(found) / total if total else 0.0


@wrong(
    "the mean of the examples' rates",
    breaks='Write it: the **hit rate**, the share of target positions whose largest weight is on one of their gold positions, over all examples together.',
    name='mean of means',
    subtle=True,
)
def alignment_hit_rate(weights, gold):

    rates = []
    for rows, sets in zip(weights, gold):
        found = [any(row) and row.index(max(row)) in p for row, p in zip(rows, sets) if p]
        if found:
            rates.append(sum(found) / len(found))
    return sum(rates) / len(rates) if rates else 0.0


@wrong(
    "cuts the rows beyond off the caller's lists",
    breaks='The lists that come in are drawn later: leave them as they are.',
    name='input changed in place',
    subtle=True,
)
def alignment_hit_rate(weights, gold):

    found = []
    for rows, sets in zip(weights, gold):
        del rows[len(sets):]
        found += [any(row) and row.index(max(row)) in p for row, p in zip(rows, sets) if p]
    return sum(found) / len(found) if found else 0.0


@wrong(
    'rounded to two places',
    breaks='The share of hits, a float in [0, 1].',
    name='rounded',
    subtle=True,
)
def alignment_hit_rate(weights, gold):

    found = [any(row) and row.index(max(row)) in p
             for rows, sets in zip(weights, gold) for row, p in zip(rows, sets) if p]
    return round(sum(found) / len(found), 2) if found else 0.0


@wrong(
    'rows of zeros do not count at all',
    breaks='A row in which all weights are zero points nowhere. That is no hit.',
    name='a row of zeros left out, not missed',
    subtle=True,
)
def alignment_hit_rate(weights, gold):

    found = [row.index(max(row)) in p
             for rows, sets in zip(weights, gold) for row, p in zip(rows, sets) if p and any(row)]
    return sum(found) / len(found) if found else 0.0


@wrong(
    'only the first gold position hits',
    breaks='Write it: the **hit rate**, the share of target positions whose largest weight is on one of their gold positions, over all examples together.',
    name='one gold position only',
    subtle=True,
)
def alignment_hit_rate(weights, gold):

    found = [any(row) and row.index(max(row)) == min(p)
             for rows, sets in zip(weights, gold) for row, p in zip(rows, sets) if p]
    return sum(found) / len(found) if found else 0.0


@wrong(
    'weights below 0.01 are taken as zero',
    breaks='A row in which all weights are zero points nowhere. That is no hit.',
    name='threshold for zero',
    subtle=True,
)
def alignment_hit_rate(weights, gold):

    found = [max(row) > 0.01 and row.index(max(row)) in p
             for rows, sets in zip(weights, gold) for row, p in zip(rows, sets) if p]
    return sum(found) / len(found) if found else 0.0


@wrong(
    'a hit if the gold positions hold more than half of the weight',
    breaks='Write it: the **hit rate**, the share of target positions whose largest weight is on one of their gold positions, over all examples together.',
    name='share of the weight, not the largest',
    subtle=True,
)
def alignment_hit_rate(weights, gold):

    found = [sum(row[s] for s in p) > 0.5
             for rows, sets in zip(weights, gold) for row, p in zip(rows, sets) if p]
    return sum(found) / len(found) if found else 0.0
