import re

from blind import bugs


def make(bug):
    def tokenize(text):
        if bug == "casefold":
            return tuple(re.findall(r"\w+|[^\w\s]", text.casefold()))
        if bug == "only ASCII spaces":
            return tuple(re.findall(r"\w+|[^\w \t\n]", text.lower()))
        if bug == "runs of signs":
            return tuple(re.findall(r"\w+|[^\w\s]+", text.lower()))
        if bug == "digits apart from letters":
            return tuple(re.findall(r"\d+|[^\W\d]+|[^\w\s]", text.lower()))
        if bug == "apostrophe inside a word":
            return tuple(re.findall(r"\w+(?:'\w+)*|[^\w\s]", text.lower()))
        if bug == "decimal numbers in one piece":
            return tuple(re.findall(r"\d+\.\d+|\w+|[^\w\s]", text.lower()))
        if bug == "only western letters":
            return tuple(re.findall(r"[a-z0-9à-öø-ÿ]+|[^\sa-z0-9à-öø-ÿ]", text.lower()))
        if bug == "signs of ASCII alone":
            return tuple(re.findall(r"\w+|[!-/:-@\[-`{-~]", text.lower()))
        if bug == "a token once only":
            return tuple(dict.fromkeys(re.findall(r"\w+|[^\w\s]", text.lower())))
        if bug == "an empty string for an empty text":
            return tuple(re.findall(r"\w+|[^\w\s]", text.lower())) or ("",)
        if bug == "accents taken off":
            import unicodedata

            plain = unicodedata.normalize("NFD", text.lower())
            plain = "".join(c for c in plain if not unicodedata.combining(c))
            return tuple(re.findall(r"\w+|[^\w\s]", plain))
        if bug == "first line alone":
            return tuple(re.findall(r"\w+|[^\w\s]", text.lower().split("\n")[0]))
        return tuple(re.findall(r"\w+|[^\w\s]", text.lower()))

    return tokenize


WORD = "a word is a run of letters and digits, and letters may have accents"
SIGN = "any other sign that is not white space is a token of its own"
SPACE = "white space separates tokens and is no token itself"
bugs(
    make,
    {
        "casefold": "all letters become lower case, as `str.lower` makes them",
        "only ASCII spaces": SPACE,
        "runs of signs": SIGN,
        "digits apart from letters": WORD,
        "apostrophe inside a word": SIGN,
        "decimal numbers in one piece": SIGN,
        "only western letters": WORD,
        "signs of ASCII alone": SIGN,
        "a token once only": WORD,
        "an empty string for an empty text": WORD,
        "accents taken off": WORD,
        "first line alone": SPACE,
    },
)
