"""The frames task: label each 10 ms frame of synthetic speech with its vowel.

A source is a sequence of frames, and the target has one label per frame.

The differences between vowels are real. The pitch and the first three formants
(resonances of the vocal tract) of ten American English vowels are averages over the 33
men, 28 women and 15 children of Peterson and Barney (1952), Table II. Each sound is
made as in speech: pulses of the vocal folds pass through one resonator per formant
(Klatt, 1980, gives the resonator's difference equation). Everything else is synthetic.
There are no consonants. A speaker differs from the average man, woman or child by one
factor on all formants and one on pitch. Formants glide from vowel to vowel, and the
noise is white. The vowels of a sequence are drawn independently, so only their sound
tells them apart. The ten vowels overlap across speakers, as in Peterson and Barney's
data.
"""

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_course.tasks.labels import LabelledExample, LabelTask

# The vowels of heed, hid, head, had, hod, hawed, hood, who'd, hud and heard.
VOWELS = ("i", "ɪ", "ɛ", "æ", "ɑ", "ɔ", "ʊ", "u", "ʌ", "ɝ")
SILENCE = "-"
# In Hz, for men, women and children: the pitch and the formants 1 to 3 of each vowel.
AVERAGES = np.array(
    [
        [
            [136, 135, 130, 127, 124, 129, 137, 141, 130, 133],
            [270, 390, 530, 660, 730, 570, 440, 300, 640, 490],
            [2290, 1990, 1840, 1720, 1090, 840, 1020, 870, 1190, 1350],
            [3010, 2550, 2480, 2410, 2440, 2410, 2240, 2240, 2390, 1690],
        ],
        [
            [235, 232, 223, 210, 212, 216, 232, 231, 221, 218],
            [310, 430, 610, 860, 850, 590, 470, 370, 760, 500],
            [2790, 2480, 2330, 2050, 1220, 920, 1160, 950, 1400, 1640],
            [3310, 3070, 2990, 2850, 2810, 2710, 2680, 2670, 2780, 1960],
        ],
        [
            [272, 269, 260, 251, 256, 263, 276, 274, 261, 261],
            [370, 530, 690, 1010, 1030, 680, 560, 430, 850, 560],
            [3200, 2730, 2610, 2320, 1370, 1060, 1410, 1170, 1590, 1820],
            [3730, 3600, 3570, 3320, 3170, 3180, 3310, 3260, 3360, 2160],
        ],
    ],
    dtype=float,
)
RATE = 8_000  # samples per second
HOP = 80  # samples per frame: 10 ms
WINDOW = 256  # samples in the window of a frame's spectrum
BANDS = 32  # frequency bands: numbers per frame
BANDWIDTHS = np.array([60.0, 90.0, 150.0])  # Hz, of the three resonators


def frames(train_size: int = 400, held_out_size: int = 60, seed: int = 0) -> LabelTask:
    """Make the frames task: random speakers who say two to four random vowels each.

    There is silence before and after the vowels. No speaker is in two splits, since
    each example has its own speaker.

    Args:
        train_size: examples to train on.
        held_out_size: examples in each of validation and test.
        seed: random seed for speakers, vowels and noise.

    Returns:
        The task. A source is (S, BANDS), see `spectra`; a label is the vowel in the
        middle of its frame, or silence. There are no gold positions, since label s
        depends on the frames around frame s.
    """
    rng = np.random.default_rng(seed)
    sizes = (train_size, held_out_size, held_out_size)
    train, validation, test = ([utterance(rng) for _ in range(size)] for size in sizes)
    return LabelTask(
        "frames", train, validation, test, (SILENCE, *VOWELS), ReadFrames(), _write
    )


def utterance(rng: np.random.Generator) -> LabelledExample:
    """Draw a speaker and vowels, synthesize the sound, and cut it into frames."""
    kind, size, pitch = rng.integers(3), rng.normal(1.0, 0.05), rng.normal(1.0, 0.1)
    vowels = rng.integers(len(VOWELS), size=rng.integers(2, 5))
    counts = rng.integers(8, 16, size=len(vowels))  # frames per vowel
    before, after = rng.integers(1, 6, size=2)  # frames of silence
    said = np.repeat(vowels, counts * HOP)
    voice = _glide(
        AVERAGES[kind][:, said] * np.array([[pitch], [size], [size], [size]])
    )
    glide = np.ones(4 * HOP) / (4 * HOP)
    voice = np.stack(
        [
            np.convolve(np.pad(row, 2 * HOP, mode="edge"), glide, "same")[
                2 * HOP : -2 * HOP
            ]
            for row in voice
        ]
    )
    sound = resonate(pulses(voice[0], rng), voice[1:])
    sound = np.pad(sound / sound.std(), (before * HOP, after * HOP))
    labels = (
        [SILENCE] * before
        + [VOWELS[v] for v in said[HOP // 2 :: HOP]]
        + [SILENCE] * after
    )
    return LabelledExample(
        spectra(sound + rng.normal(0.0, 0.05, size=sound.shape)), tuple(labels)
    )


def _glide(voice: np.ndarray, reach: int = 2 * HOP) -> np.ndarray:
    """Replace each sample by the mean over `reach` samples on either side.

    This turns a step into a ramp.
    """
    around = np.pad(voice, ((0, 0), (reach, reach)), mode="edge")
    return np.lib.stride_tricks.sliding_window_view(around, 2 * reach + 1, axis=1).mean(
        axis=2
    )


def pulses(pitch: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Synthesize the pulses of the vocal folds, which open once per period.

    A pulse occurs wherever the phase passes a whole number.

    Args:
        pitch: in Hz, at each sample.
        rng: draws the initial phase.

    Returns:
        The source signal at each sample. Its spectrum falls by 12 dB per octave, as
        that of the voice does.
    """
    phase = np.cumsum(pitch / RATE) + rng.random()
    opened = np.diff(np.floor(phase), prepend=np.floor(phase[0]))
    return _low_pass(_low_pass(opened - opened.mean()))


def _low_pass(x: np.ndarray, keep: float = 0.9) -> np.ndarray:
    return np.array(list(accumulate(x.tolist(), lambda y, x_n: keep * y + x_n)))


def resonate(source: np.ndarray, formants: np.ndarray) -> np.ndarray:
    r"""Pass a source signal through one resonator per formant.

    .. math:: y_n = A x_n + B y_{n-1} + C y_{n-2}, \quad C = -e^{-2 \pi b / r}, \quad
        B = 2 e^{-\pi b / r} \cos(2 \pi f / r), \quad A = 1 - B - C

    From Klatt (1980), where f is the frequency of the formant, b its bandwidth, and r
    the number of samples per second.

    Args:
        source: samples.
        formants: (3, samples), in Hz.

    Returns:
        The sound.
    """
    sound = source
    for frequency, bandwidth in zip(formants, BANDWIDTHS):
        c = -math.exp(-2 * math.pi * bandwidth / RATE)
        b = (
            2
            * math.exp(-math.pi * bandwidth / RATE)
            * np.cos(2 * math.pi * frequency / RATE)
        )
        y, before, out = 0.0, 0.0, []
        for x, b_n in zip(sound.tolist(), b.tolist()):
            y, before = (1 - b_n - c) * x + b_n * y + c * before, y
            out.append(y)
        sound = np.array(out)
    return sound


def spectra(sound: np.ndarray) -> Float[Tensor, "S bands"]:
    """Compute the log power spectrum around the middle of each frame.

    The power is averaged in `BANDS` bands of equal width.

    Args:
        sound: samples, a whole number of frames.

    Returns:
        Log power per frame and band, in units of 10 dB.
    """
    padded = np.pad(sound, (WINDOW - HOP) // 2)
    cut = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]
    power = np.abs(np.fft.rfft(cut * np.hanning(WINDOW))[:, 1:]) ** 2  # (S, WINDOW / 2)
    bands = power.reshape(len(cut), BANDS, -1).mean(axis=2)
    return torch.tensor(np.log10(bands + 1e-3), dtype=torch.float32)


class ReadFrames:
    """The `read` of a task whose sources are sound: pad and count frames."""

    size = BANDS

    def __call__(
        self,
        sources: Sequence[Float[Tensor, "_ bands"]],
        device: torch.device | str = "cpu",
    ) -> tuple[Float[Tensor, "B S bands"], Int[Tensor, " B"]]:
        """Pad frames with zeros, and count them.

        Args:
            sources: the frames of each example.
            device: device of the frames and lengths.

        Returns:
            The frames, padded to the longest source, and the number of frames in each.

        Raises:
            ValueError: there are no sources, or a source has no frames or frames of the
                wrong width.
        """
        if not sources:
            raise ValueError("a batch needs at least one example, got 0")
        for i, source in enumerate(sources):
            if not len(source):
                raise ValueError(
                    f"the source of example {i} has 0 frames; a labeller needs at"
                    " least 1"
                )
            if source.shape[1:] != (BANDS,):
                raise ValueError(
                    f"the source of example {i} has shape {tuple(source.shape)},"
                    f" expected (frames, {BANDS})"
                )
        padded = torch.nn.utils.rnn.pad_sequence(list(sources), batch_first=True)
        lengths = torch.tensor([len(source) for source in sources], device=device)
        return padded.to(device), lengths


def _write(source: Float[Tensor, "S bands"]) -> str:
    return f"{len(source)} frames"
