"""Folders that transformers saves, read and written with from a shell."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported

import io
import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from attention_course import cli
from attention_course.decoding import greedy
from attention_course.pretrained import folder as pretrained_folder
from attention_course.pretrained import read_writer, writer

TEXT = ["the cat sat on the mat and the dog sat on the cat", "a dog and a cat"]
PROMPT = "the cat sat"
N = 47  # positions


def bytes_tokenizer():
    """As GPT-2's: pairs of bytes, and one token that begins and ends."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=277,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


def words_tokenizer():
    """As Llama's: pairs of letters, and a token that every text begins with."""
    tokenizer = Tokenizer(BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = BpeTrainer(
        vocab_size=29, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return tokenizer


def save(model, tokenizer, folder, **how):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 3)
    model.eval().save_pretrained(folder, **how)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    return model


def gpt2(folder, **how):
    torch.manual_seed(7)
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    sizes = {"vocab_size": 277, "n_positions": N, "n_embd": 14, "n_head": 2}
    config = GPT2Config(**sizes, **ends, n_layer=3)
    return save(GPT2LMHeadModel(config), bytes_tokenizer(), folder, **how)


def llama(folder, **how):
    torch.manual_seed(7)
    tokenizer = words_tokenizer()
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=30,
        intermediate_size=23,
        num_hidden_layers=3,
        num_attention_heads=3,
        num_key_value_heads=1,
        max_position_embeddings=N,
        bos_token_id=1,
        eos_token_id=[2, 3],
        rope_parameters={"rope_type": "default", "rope_theta": 17.0},
    )
    return save(LlamaForCausalLM(config), tokenizer, folder, **how)


MAKERS = {"gpt2": gpt2, "llama": llama}
each_family = pytest.mark.parametrize("family", MAKERS)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Folder and model of each family, saved once for all tests."""
    folders = {name: tmp_path_factory.mktemp(name) for name in MAKERS}
    return {name: (folders[name], MAKERS[name](folders[name])) for name in MAKERS}


@pytest.fixture
def folder(saved, family, tmp_path):
    """A copy to break."""
    return Path(shutil.copytree(saved[family][0], tmp_path / "checkpoint"))


@pytest.fixture
def shell(monkeypatch, capsys):
    """Write from a shell; return what it said, and what it said when it failed."""

    def run(*words):
        words = ["attention-course", "write", "--device", "cpu", *map(str, words)]
        monkeypatch.setattr(sys, "argv", words)
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main()
        told = capsys.readouterr()
        return told.out, end.value.code or told.err

    return run


def continued(folder, model, prompt, count):
    """What transformers writes, the likeliest token every time."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = torch.tensor([tokenizer.encode(prompt).ids])
    written = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=count,
        do_sample=False,
        pad_token_id=0,
    )[0].tolist()
    return tokenizer.decode(written)


@each_family
@pytest.mark.parametrize("prompt", [PROMPT, "a", "dog"])
def test_what_is_written_is_what_transformers_writes(shell, saved, family, prompt):
    folder, model = saved[family]
    expected = continued(folder, model, prompt, 12)
    out, failed = shell("--checkpoint", folder, "--max-tokens", 12, prompt)

    assert not failed
    assert out == f"{expected}\n"
    assert out.startswith(prompt) and len(out.strip()) > len(prompt)


@each_family
def test_several_files_are_as_good_as_one(shell, saved, family, tmp_path):
    MAKERS[family](tmp_path, max_shard_size="5KB")
    assert (tmp_path / "model.safetensors.index.json").exists()
    assert not (tmp_path / "model.safetensors").exists()
    together, apart = (
        shell("--checkpoint", folder, "--max-tokens", 9, PROMPT)
        for folder in (saved[family][0], tmp_path)
    )
    assert apart == together and apart[0]


def test_a_text_ends_where_any_end_is_written(saved, monkeypatch):
    """Decoding waits for one end, 2; here another, 3, is written first."""
    reads, searches = read_writer(saved["llama"][0]), []
    assert (reads.begin, reads.ends) == (1, (2, 3))

    def say(**asked):
        searches.append(asked)
        return greedy(**asked)._replace(tokens=torch.tensor([[7, 5, 3, 6]]))

    monkeypatch.setattr(writer, "greedy", say)
    begun = reads.tokenizer.encode(PROMPT).ids
    assert reads.write(PROMPT, 4) == reads.tokenizer.decode([*begun, 7, 5])
    assert [(search["bos"], search["eos"]) for search in searches] == [(1, 2)]


def test_an_empty_prompt_is_begun_with_what_begins(saved):
    """GPT-2's tokenizer makes nothing of nothing; its first token is then 0."""
    reads = read_writer(saved["gpt2"][0])
    assert reads.tokenizer.encode("").ids == []
    written = greedy(
        reads.model, torch.zeros(1, 0).long(), torch.tensor([0]), 0, 0, 5
    ).tokens

    assert reads.write("", 5) == reads.tokenizer.decode(written[0].tolist())


@each_family
def test_chance_has_a_seed(shell, saved, family):
    words = ["--checkpoint", saved[family][0], "--max-tokens", 12, PROMPT]
    drawn = ["--temperature", 3.0, *words]
    once, failed = shell("--seed", 5, *drawn)

    assert not failed
    assert shell("--seed", 5, *drawn)[0] == once != shell("--seed", 6, *drawn)[0]
    assert shell(*drawn)[0] == shell("--seed", 0, *drawn)[0]
    assert shell("--top-k", 1, *drawn)[0] == shell(*words)[0] != once


@each_family
def test_a_tokenizer_that_pads_and_cuts_does_neither(saved, folder, family):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding(length=20)
    tokenizer.enable_truncation(2)
    tokenizer.save(str(folder / "tokenizer.json"))

    whole = read_writer(saved[family][0]).write(PROMPT, 5)
    assert read_writer(folder).write(PROMPT, 5) == whole


@pytest.mark.parametrize("family", ["gpt2"])
def test_a_folder_without_buffers_or_defaults_is_read(saved, folder):
    """As older releases have saved it: what is usual is not said, and the body is
    saved alone."""
    path = folder / "config.json"
    said = json.loads(path.read_text())
    for name in ("n_inner", "tie_word_embeddings", "scale_attn_weights", "dtype"):
        said.pop(name)
    path.write_text(json.dumps(said))
    tensors = load_file(folder / "model.safetensors")
    alone = {name.removeprefix("transformer."): t for name, t in tensors.items()}
    save_file(alone, folder / "model.safetensors")

    expected = read_writer(saved["gpt2"][0]).write(PROMPT, 5)
    assert read_writer(folder).write(PROMPT, 5) == expected


# What follows is about our own errors.


@pytest.mark.plain
@pytest.mark.parametrize("family", ["gpt2"])
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--top-k", 3], "--top-k does nothing without --temperature"),
        (["--seed", 3], "--seed does nothing without --temperature"),
        (["--temperature", 0], "--temperature is above 0, got 0.0; leave it out"),
        (["--temperature", 1, "--top-k", 278], "the 278 likeliest of 277 tokens"),
        (["--max-tokens", 45], "and 45 more are too long for a model of 47"),
    ],
)
def test_wrong_options_are_refused(shell, folder, words, told):
    out, failed = shell("--checkpoint", folder, *words, PROMPT)

    assert not out
    assert told in failed and "\n" not in failed


@each_family
def test_what_a_configuration_does_not_say_is_as_usual(saved, family, folder):
    path = folder / "config.json"
    said = json.loads(path.read_text())
    usual = {"gpt2": GPT2Config, "llama": LlamaConfig}[family]().to_dict()
    for name in said.keys() & usual.keys() - {"model_type"}:
        if said[name] == usual[name]:
            del said[name]
    path.write_text(json.dumps(said))
    net, ids = saved[family][1], torch.tensor([[5, 7, 9, 11]])

    with torch.no_grad():
        given = read_writer(folder).model(ids)[0]
        torch.testing.assert_close(given, net(ids).logits[0], rtol=0, atol=1e-4)


def change(name, **entries):
    def do(folder):
        said = json.loads((folder / name).read_text())
        for entry, value in entries.items():
            said[entry] = value
        (folder / name).write_text(json.dumps(said))

    return do


def replace(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def remove(name):
    return lambda folder: (folder / name).unlink()


def cut(name, size):
    def do(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:size])

    return do


def tensors(change):
    def do(folder):
        held = load_file(folder / "model.safetensors")
        change(held)
        save_file(held, folder / "model.safetensors")

    return do


WTE, LN = "transformer.wte.weight", "transformer.h.1.ln_2.bias"
BROKEN = {
    "another family": (
        change("config.json", model_type="mistral"),
        "model_type in config.json is 'mistral'",
    ),
    "no config": (remove("config.json"), "there is no file config.json in"),
    "broken config": (replace("config.json", b"{"), "config.json is no JSON"),
    "config of bytes": (
        replace("config.json", b"\xff\x00\xfe"),
        "config.json is no JSON",
    ),
    "deep config": (replace("config.json", b"[" * 100_000), "config.json is no JSON"),
    "config of a number": (replace("config.json", b"17"), "has no names and values"),
    "no size": (change("config.json", n_positions=None), "n_positions in config.json"),
    "no end": (change("config.json", eos_token_id="end"), "eos_token_id .* got end"),
    "no tokenizer": (remove("tokenizer.json"), "there is no file tokenizer.json in"),
    "broken tokenizer": (replace("tokenizer.json", b"{}"), "tokenizer.json holds no"),
    "tokenizer of bytes": (
        replace("tokenizer.json", b"\xff"),
        "tokenizer.json holds no",
    ),
    "no tensors": (remove("model.safetensors"), "no file model.safetensors in"),
    "tensors cut short": (
        cut("model.safetensors", 5000),
        "model.safetensors is damaged",
    ),
    "no header": (cut("model.safetensors", 4), "model.safetensors is damaged"),
    "empty": (replace("model.safetensors", b""), "model.safetensors is damaged"),
    "a missing tensor": (
        tensors(lambda held: held.pop(LN)),
        f"tensor {LN} is missing",
    ),
    "a superfluous tensor": (
        tensors(lambda held: held.update(more=torch.ones(2))),
        "tensor more is one too many",
    ),
    "a wide tensor": (
        tensors(lambda held: held.update({WTE: torch.ones(277, 15)})),
        rf"tensor {WTE} is of shape \(277, 15\), not of \(277, 14\)",
    ),
    "whole numbers": (
        tensors(lambda held: held.update({LN: held[LN].int()})),
        f"tensor {LN} is of torch.int32",
    ),
    "a smaller vocabulary": (
        change("config.json", vocab_size=200),
        rf"tensor {WTE} is of shape \(277, 14\), not of \(200, 14\)",
    ),
    "more layers": (
        change("config.json", n_layer=4),
        r"tensor transformer\.h\.3\..*miss",
    ),
    "fewer layers": (change("config.json", n_layer=2), r"\.h\.2\..* one too many"),
}


@pytest.mark.plain
@pytest.mark.parametrize("family", ["gpt2"])
@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_folder_is_told_in_a_line(shell, folder, what):
    damage, told = BROKEN[what]
    damage(folder)
    out, failed = shell("--checkpoint", folder, PROMPT)

    assert not out
    assert failed.startswith("attention-course: ") and "\n" not in failed
    assert str(folder) in failed
    with pytest.raises(ValueError, match=told):
        read_writer(folder)


@pytest.mark.plain
@pytest.mark.parametrize("family", ["llama"])
@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            {"rope_parameters": {"rope_type": "yarn", "rope_theta": 10.0}},
            "of type 'yarn'; known here is 'default' alone",
        ),
        (
            {"rope_parameters": None, "rope_scaling": {"rope_type": "llama3"}},
            "of type 'llama3'",
        ),
        ({"num_key_value_heads": 2}, "3 heads cannot be divided among 2 heads of keys"),
        ({"tie_word_embeddings": True}, "lm_head.weight is not model.embed_tokens"),
    ],
)
def test_another_llama_is_told_in_a_line(shell, folder, said, told):
    change("config.json", **said)(folder)
    out, failed = shell("--checkpoint", folder, PROMPT)

    assert not out
    assert told in failed and str(folder) in failed and "\n" not in failed


@pytest.mark.plain
@pytest.mark.parametrize("damage", ["gone", "no map", "outside", "elsewhere", "unsaid"])
def test_a_broken_index_is_told_in_a_line(shell, tmp_path, damage):
    gpt2(tmp_path, max_shard_size="5KB")
    index = tmp_path / "model.safetensors.index.json"
    said = json.loads(index.read_text())
    files = said["weight_map"]
    last = files[LN]
    match damage:
        case "gone":
            (tmp_path / last).unlink()
            told = f"there is no file {last} in"
        case "no map":
            said, told = {}, "does not say which file"
        case "outside":
            files[LN], told = f"../{last}", "does not say which file"
        case "elsewhere":
            files["more"], told = last, f"says that tensor more is in {last}"
        case "unsaid":
            del files[LN]
            told = f"does not say that tensor {LN} is in {last}"
    index.write_text(json.dumps(said))
    out, failed = shell("--checkpoint", tmp_path, PROMPT)

    assert not out
    assert told in failed and "\n" not in failed


def test_each_file_of_an_index_is_read_once(tmp_path, monkeypatch):
    gpt2(tmp_path, max_shard_size="5KB")
    read, in_time = [], pretrained_folder._tensors
    monkeypatch.setattr(
        pretrained_folder, "_tensors", lambda path: read.append(path) or in_time(path)
    )
    assert len(pretrained_folder.read_tensors(tmp_path)) > len(read) > 1
    assert len(set(read)) == len(read)


@pytest.mark.plain
def test_bert_is_refused(shell, tmp_path):
    config = BertConfig(
        vocab_size=277,
        hidden_size=14,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=5,
        max_position_embeddings=N,
    )
    save(BertModel(config), bytes_tokenizer(), tmp_path)
    out, failed = shell("--checkpoint", tmp_path, PROMPT)

    assert not out
    assert failed == (
        f"attention-course: {tmp_path}: a model of the family bert fills gaps in a text"
        " and cannot go on with one"
    )


@pytest.mark.plain
def test_no_folder_is_told_in_a_line(shell, tmp_path):
    _, failed = shell("--checkpoint", tmp_path / "gpt2", PROMPT)
    assert failed == f"attention-course: there is no folder {tmp_path / 'gpt2'}"


@pytest.mark.plain
@pytest.mark.parametrize("family", ["llama"])
def test_prompts_that_the_model_cannot_read_are_refused(folder):
    reads = read_writer(folder)
    count = reads.model.head.out_features
    nothing = reads._replace(tokenizer=bytes_tokenizer(), begin=None)
    with pytest.raises(ValueError, match="the prompt is empty"):
        nothing.write("", 5)
    with pytest.raises(ValueError, match=f"but the model has {count} tokens"):
        nothing.write(PROMPT, 5)


@pytest.mark.plain
@pytest.mark.parametrize("family", ["gpt2"])
def test_a_gpu_that_is_not_there_is_told_in_a_line(shell, folder, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    _, failed = shell("--checkpoint", folder, "--device", "cuda", PROMPT)
    assert "1 GPU is needed" in failed
