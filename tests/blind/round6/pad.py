import torch
from attention_course.tasks.core import PAD
from blind import bugs


def make(bug):
    def pad(rows):
        longest = max(map(len, rows))
        if bug == "at least one column":
            longest = max(longest, 1)
        if bug == "extends the rows":
            for row in rows:
                row += [PAD] * (longest - len(row))
            return torch.tensor(rows, dtype=torch.long).reshape(len(rows), longest)
        if bug == "32 bits":
            full = [row + [PAD] * (longest - len(row)) for row in rows]
            return torch.tensor(full, dtype=torch.int32)
        if bug == "empty rows left out":
            rows = [row for row in rows if row] or [[]]
        if bug == "sorted by length":
            rows = sorted(rows, key=len, reverse=True)
        full = [row + [PAD] * (longest - len(row)) for row in rows]
        if bug == "in front":
            full = [[PAD] * (longest - len(row)) + row for row in rows]
        if bug == "float where all are empty":
            return torch.tensor(full)
        if bug == "one row has no axis":
            return torch.tensor(full, dtype=torch.long).squeeze(0)
        if bug == "to the last row's length":
            n = len(rows[-1])
            full = [(row + [PAD] * n)[: max(n, len(row))] for row in rows]
        return torch.tensor(full, dtype=torch.long).reshape(len(rows), -1) if (
            longest
        ) else torch.zeros(len(rows), 0, dtype=torch.long)

    return pad


EMPTY = "Rows may be empty, and so may all of them: then the tensor is (B, 0)."
bugs(
    make,
    {
        "at least one column": EMPTY,
        "extends the rows": "The rows that come in are not yours: leave them as they are.",
        "32 bits": "a tensor (B, T) of integers (`torch.long`)",
        "empty rows left out": EMPTY,
        "sorted by length": "a tensor (B, T)",
        "in front": "filled up with `PAD`, at the end",
        "float where all are empty": "integers (`torch.long`)",
        "one row has no axis": "a tensor (B, T)",
        "to the last row's length": "Rows that are shorter than the longest are filled up",
    },
)
