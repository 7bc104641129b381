from blind import bugs


def make(bug):
    def exact_match(predictions, references):
        pairs = list(zip(predictions, references))
        if bug == "compares as strings without spaces":
            hits = [" ".join(p).replace(" ", "") == "".join(r) for p, r in pairs]
        elif bug == "order does not matter":
            hits = [sorted(p) == sorted(r) for p, r in pairs]
        elif bug == "as sets":
            hits = [set(p) == set(r) for p, r in pairs]
        elif bug == "up to the shorter one":
            hits = [all(a == b for a, b in zip(p, r)) for p, r in pairs]
        elif bug == "a beginning is enough":
            hits = [r[: len(p)] == p for p, r in pairs]
        elif bug == "the right one may go on":
            hits = [p[: len(r)] == r for p, r in pairs]
        elif bug == "case does not matter":
            hits = [[x.lower() for x in p] == [x.lower() for x in r] for p, r in pairs]
        elif bug == "empty predictions left out":
            hits = [p == r for p, r in pairs if p] or [0]
        elif bug == "empty is wrong":
            hits = [bool(p) and p == r for p, r in pairs]
        elif bug == "every prediction once":
            hits = [p == r for p, r in set(pairs)]
        elif bug == "anywhere in the list":
            hits = [p in references for p in predictions]
        elif bug == "share of tokens":
            hits = [a == b for p, r in pairs for a, b in zip(p, r)] or [0]
        else:
            hits = [p == r for p, r in pairs]
        if bug == "a percentage":
            return 100.0 * sum(hits) / len(hits)
        if bug == "the number of hits":
            return float(sum(hits))
        if bug == "takes the list apart":
            count = 0
            total = len(predictions)
            while predictions:
                count += predictions.pop() == references.pop()
            return count / total
        if bug == "rounded":
            return round(sum(hits) / len(hits), 2)
        return sum(hits) / len(hits)

    return exact_match


ALL = "an answer counts if all of its tokens are right, in number and in order"
SHARE = "The share of examples that are right"
bugs(
    make,
    {
        "compares as strings without spaces": ALL,
        "order does not matter": ALL,
        "as sets": ALL,
        "up to the shorter one": ALL,
        "a beginning is enough": ALL,
        "the right one may go on": ALL,
        "case does not matter": ALL,
        "empty predictions left out": SHARE,
        "empty is wrong": "a tuple may be empty",
        "every prediction once": SHARE,
        "anywhere in the list": "in the same order",
        "share of tokens": ALL,
        "a percentage": "a float in [0, 1]",
        "the number of hits": SHARE,
        "takes the list apart": "Both lists stay as they are.",
        "rounded": SHARE,
    },
)
