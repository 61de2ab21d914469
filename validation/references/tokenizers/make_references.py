#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the reference files of this folder with the tokenizers library (written for 0.23).

Small tokenizers are trained on Debian Reference in several languages; what the library makes of
hard texts stands in *.ids.json, which the unit tests of src/corpus/tokenizer read without Python:

    pip install tokenizers==0.23.3
    python3 make_references.py

NAME.json is a tokenizer. NAME.ids.json holds, for each text of texts.json, the ids with special
tokens as text (as_text) and as tokens (as_tokens). NAME.variants-N.json holds changes of the
tokenizer and the ids that they give (special tokens as text). The end-of-document token is left out of the texts: there the two programs differ on
purpose.
"""
import glob
import gzip
import json
import os

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLANK = "\u2581"

TEXTS = [
    "", " ", "a", "\n", "Hello, world!", " leading and trailing ", "don't I'll WE'RE it'S you'Ve \u017f'\u017fx",
    "line\nline\n\n\nline \n  indented\r\n\ttab\t\tend\n", "  two   three    four     ", "a" * 70,
    "\u00a0\u3000\u2003wide\u2028blanks\u0085here\u180eand\u200bthere",
    "1 12 123 1234 12345678 3.14159 \u00bd\u00b2\u2167 \u0661\u0662\u0663 \u4e09",
    "\U0001F600\U0001F468\u200d\U0001F469\u200d\U0001F467\u200d\U0001F466\U0001F1E9\U0001F1EA\u2764\ufe0f\U0001F44D\U0001F3FD!",
    "e\u0301 \u00e9 A\u030a \u00c5 \u212b \ufb01 o\u0323\u0302 \u1e69 \u0130I\u0131i \u03a3\u03c2\u03c3",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u05e9\u05dc\u05d5\u05dd",
    "Debian \u306f\u30d5\u30ea\u30fc\u306a OS \u3067\u3059\u3002\u65e5\u672c\u8a9e\u3068\u4e2d\u6587\u6df7\u5408, \ud55c\uad6d\uc5b4!",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0395\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac \u0939\u093f\u0928\u094d\u0926\u0940 \u0e44\u0e17\u0e22",
    "nul\x00byte \x01\x7f \ue000\uf8ff \U000f0000 \ufffd \ufeff bom",
    "x<|begin|>y<|end|> <|begin|> <|pad|>z <extra> <extra>word re<extra>x  <extra>  <mask>",
    BLANK + "a" + BLANK + BLANK + "b " + BLANK + " c", "<0x41><0xE2> <unk> <s>",
    "if (a[i] != b->c) { return f(x, \"y\") / 2; }  // #1 @@ $$ ~~~ ```\n\n    }\n",
    "apt-get install debian-reference-en && man 7 utf-8; cat /etc/apt/sources.list | grep -v '^#'",
    "\u00bfQu\u00e9 es Debian? \u00c7a va tr\u00e8s bien; \u00fcber stra\u00dfe \u00c6\u00d8\u0152",
    "\t \n \r\n \u00a0\n x", "\n\n  x", "a \n", "a  \n  \n b", "!\n\n?\r\n ...\n x", "''s ''''re 'S'T 'lll",
]


def training_lines():
    lines = []
    for language in ["en", "de", "fr", "ja", "zh-cn", "es"]:
        for path in glob.glob(f"/usr/share/debian-reference/debian-reference.{language}.txt.gz"):
            lines += gzip.open(path, "rt").read()[:250000].splitlines(keepends=True)
    return lines + ["\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 \u0645\u0631\u062d\u0628\u0627\n"] * 20


def added(content, **flags):
    token = dict(id=None, content=content, single_word=False, lstrip=False, rstrip=False,
                 normalized=False, special=True)
    token.update(flags)
    return token


def finish(name, tokenizer, tokens, changes):
    """Adds tokens and changes to a trained tokenizer and writes it."""
    data = json.loads(tokenizer.to_str())
    data.update({k: v for k, v in changes.items() if k != "model"})
    data["model"].update(changes.get("model", {}))
    vocab = data["model"]["vocab"]
    data["added_tokens"] = []
    count = len(vocab)
    for token in tokens:
        token = dict(token)
        token["id"] = vocab.get(token["content"], count)
        count += token["content"] not in vocab
        data["added_tokens"].append(token)
    with open(f"{name}.json", "w") as out:
        json.dump(data, out, ensure_ascii=False, separators=(",", ":"))
    return data


def ids_of(data, as_text, texts):
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.encode_special_tokens = as_text
    return [tokenizer.encode(t, add_special_tokens=False).ids for t in texts]


def write_ids(name, data, variants):
    result = {"as_text": ids_of(data, True, TEXTS), "as_tokens": ids_of(data, False, TEXTS)}
    with open(f"{name}.ids.json", "w") as out:
        json.dump(result, out, separators=(",", ":"))
    parts = []
    for patch in variants:
        changed = json.loads(json.dumps(data))
        for key, value in patch.items():
            if key == "model":
                changed["model"].update(value)
            else:
                changed[key] = value
        parts.append({"patch": patch, "ids": ids_of(changed, True, TEXTS)})
    for first in range(0, len(parts), 7):
        with open(f"{name}.variants-{first // 7}.json", "w") as out:
            json.dump(parts[first:first + 7], out, separators=(",", ":"))


def train(pre_tokenizer, size, **options):
    tokenizer = Tokenizer(models.BPE(**{k: v for k, v in options.items() if k != "trainer"}))
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False,
                                  **options.get("trainer", {}))
    tokenizer.train_from_iterator(training_lines(), trainer)
    return tokenizer


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def byte_level(use_regex=True, prefix=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True,
            "use_regex": use_regex}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def normal(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


EXTRA = [added("<extra>", special=False, normalized=True, single_word=True),
         added("<mask>", lstrip=True, rstrip=True, special=True),
         added("<|pad|>", special=False, normalized=False, rstrip=True)]


def make_gpt2():
    alphabet = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet(),
                "special_tokens": ["<|endoftext|>"]}
    tokenizer = train(pre_tokenizers.ByteLevel(add_prefix_space=False), 620, trainer=alphabet)
    data = finish("gpt2", tokenizer, [added("<|endoftext|>"), added("<|begin|>"),
                                      added("   ", special=False, normalized=True)],
                  {"decoder": byte_level()})
    qwen = LLAMA3.replace("{1,3}", "")
    write_ids("gpt2", data, [
        {"pre_tokenizer": byte_level(prefix=True)},
        {"added_tokens": data["added_tokens"][:2],
         "pre_tokenizer": sequence(split(qwen), byte_level(False))},
        {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": True}, byte_level())},
        {"normalizer": {"type": "NFC"},
         "pre_tokenizer": sequence(split(LLAMA3, "Removed", True), byte_level(False))},
        {"pre_tokenizer": sequence(
            split(r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
                  r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*"
                  r"|\s*[\r\n]+|\s+(?!\S)|\s+"), byte_level(False))},
        {"pre_tokenizer": sequence(split(r"\w+|\W"), split("[\\s\\p{Han}]+", "Contiguous"),
                                   byte_level(False))},
        {"added_tokens": data["added_tokens"][:2],
         "pre_tokenizer": sequence({"type": "Punctuation"}, byte_level()), "normalizer":
         normal({"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "NFKC"})},
    ])


def make_llama3():
    alphabet = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    pre = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                   pre_tokenizers.ByteLevel(False, use_regex=False)])
    data = finish("llama3", train(pre, 620, trainer=alphabet),
                  [added("<|begin|>"), added("<|end|>"), added("<|end_of_text|>")] + EXTRA,
                  {"decoder": byte_level(), "model": {"ignore_merges": True}})
    write_ids("llama3", data, [])


def make_llama2():
    special = {"special_tokens": ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)],
               "limit_alphabet": 150}
    tokenizer = train(pre_tokenizers.Metaspace(), 800, unk_token="<unk>", byte_fallback=True,
                      fuse_unk=True, trainer=special)
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": BLANK}
    data = finish("llama2", tokenizer, [added("<unk>"), added("<s>"), added("</s>")], {
        "pre_tokenizer": None,
        "normalizer": normal({"type": "Prepend", "prepend": BLANK}, replace),
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": BLANK}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})

    def meta(scheme, cut):
        return {"normalizer": None, "pre_tokenizer": {
            "type": "Metaspace", "replacement": BLANK, "prepend_scheme": scheme, "split": cut}}
    write_ids("llama2", data, [
        meta("always", True), meta("first", True), meta("first", False), meta("never", False),
        {"model": {"byte_fallback": False}}, {"model": {"byte_fallback": False, "fuse_unk": False}},
        {"model": {"byte_fallback": False, "unk_token": None}},
        {"normalizer": normal({"type": "NFKD"}, {"type": "Lowercase"}, {"type": "StripAccents"},
                              {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": BLANK})},
        {"normalizer": None, "pre_tokenizer": {"type": "Whitespace"}},
        {"normalizer": {"type": "NFD"}, "pre_tokenizer": {"type": "WhitespaceSplit"}},
        {"normalizer": None, "pre_tokenizer": sequence(
            split(" ", "MergedWithNext", kind="String"), split("[aeiou]", "MergedWithPrevious"),
            {"type": "Digits", "individual_digits": False},
            {"type": "Punctuation", "behavior": "Contiguous"})},
        {"normalizer": None, "pre_tokenizer": split("e|(?=t)", "Removed")},
        {"added_tokens": data["added_tokens"] + [dict(t, id=800 + i) for i, t in enumerate(EXTRA)]},
        {"normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "WhitespaceSplit"},
         "model": {"continuing_subword_prefix": "", "end_of_word_suffix": "s"}},
    ])


if __name__ == "__main__":
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    with open("texts.json", "w") as out:
        json.dump(TEXTS, out, ensure_ascii=True, indent=0)
    make_gpt2()
    make_llama3()
    make_llama2()
