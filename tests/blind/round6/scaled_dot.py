import math

from attention_course.scores import Score
from blind import bugs


def make(bug):
    class ScaledDotScore(Score):
        width = 0

        def forward(self, query, projected):
            scores = query @ projected.mT
            by = {
                "number of keys": projected.size(-2),
                "number of queries": query.size(-2),
                "the first axis": query.size(0),
                "at least two": max(2, query.size(-1)),
                "512": 512,
            }.get(bug, query.size(-1))
            if bug == "by the width":
                return scores / query.size(-1)
            if bug == "multiplied":
                return scores * math.sqrt(query.size(-1))
            if bug == "both scaled":
                by = by**2
            if bug == "the width of the first call":
                self.width = self.width or query.size(-1)
                by = self.width
            if bug == "rounded down root":
                return scores / math.isqrt(by)
            return scores / math.sqrt(by)

    return ScaledDotScore


ROOT = "divided by the root of their width"
bugs(
    make,
    {
        name: ROOT
        for name in (
            "number of keys",
            "number of queries",
            "the first axis",
            "at least two",
            "512",
            "by the width",
            "multiplied",
            "both scaled",
            "the width of the first call",
            "rounded down root",
        )
    },
)
