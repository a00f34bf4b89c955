r"""Write texts in the published Deutsche Welle format of word ids, which `train_dw.py` reads.

    python recipes/write_dw.py --texts dw_texts --word_vectors word_vectors --output_dir dw_format/general
    python recipes/train_dw.py --data dw_format/general --word_vectors word_vectors

`TEXTS/{train,dev,test}/LANGUAGE.jsonl` has a document per line, with the names of its labels:

    {"id": "a-1", "text": "The match ended in a draw.", "labels": ["Sports", "Bundesliga"]}

`WORD_VECTORS` has a file for each language, LANGUAGE.pkl.gz as published or in a format of `load_word_vectors`.
"""

import argparse
import json
import os
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

from datasets import Dataset
from papers.pickled_vectors import read_language
from tokenizers import Tokenizer, models

from hf_gile import LabelSet
from hf_gile.data import ReadReport, WordVectors, load_table
from hf_gile.models.texts_gile import split_sentences
from hf_gile.tokenizing import UNK, normalizer_and_splitter
from hf_gile.writing import whole_file

PARTS = ("train", "dev", "test")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True, help="Folder with train, dev and test.")
    parser.add_argument("--word_vectors", type=Path, required=True, help="Folder of word vectors.")
    parser.add_argument("--output_dir", type=Path, required=True, help="Folder of the word ids.")
    arguments = parser.parse_args()
    languages = sorted(path.stem for path in (arguments.texts / "train").glob("*.jsonl"))
    if not languages:
        parser.error(f"no file LANGUAGE.jsonl in {arguments.texts / 'train'}")
    for language in languages:
        documents = {part: load_table(arguments.texts / part / f"{language}.jsonl", id="id")[0] for part in PARTS}
        names = dict.fromkeys(name for rows in documents.values() for name in chain.from_iterable(rows["labels"]))
        labels = LabelSet.from_names(list(names))
        report = ReadReport(files=len(PARTS))
        vectors = read_language(arguments.word_vectors, language)
        write_dw(documents, labels, arguments.output_dir, language, vectors, report)
        print(f"{language}: {report}")
    print(f"written to {arguments.output_dir}")


def write_dw(
    documents: Mapping[str, Dataset],
    label_set: LabelSet,
    folder: str | os.PathLike[str],
    language: str,
    word_vectors: WordVectors,
    report: ReadReport | None = None,
) -> None:
    """Writes texts in the published format of word ids, which `load_dw` reads.

    Words are lower-cased; words without a vector are left out. Labels and documents that become empty are left out and
    counted; labels that become equal are merged.

    Args:
        documents: Documents of each split.
        label_set: Labels of the documents.
        folder: Output folder, for files `SPLIT/LANGUAGE.json`.
        language: Language, which names the files.
        word_vectors: Word vectors of the language.
        report: Counts documents and skipped items.

    Raises:
        ValueError: If no label has a word with a vector.
    """
    report = ReadReport() if report is None else report
    vocabulary = {word: row for row, word in enumerate(word_vectors.words)}
    unknown = vocabulary.setdefault(UNK, len(word_vectors.words))
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNK))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer_and_splitter()

    def encode(sentences: list[str]) -> list[list[int]]:
        encodings = tokenizer.encode_batch_fast(sentences, add_special_tokens=False)
        return [ids for encoding in encodings if (ids := [word for word in encoding.ids if word != unknown])]

    label_columns: dict[str, int] = {}
    columns_by_words: dict[str, int] = {}
    for label in label_set:
        if words := encode([label.name]):
            label_columns[label.id] = columns_by_words.setdefault("_".join(map(str, words[0])), len(columns_by_words))
        else:
            report.leave_out("label without word vectors", label.id)
    if not label_columns:
        raise ValueError(f"{language}: no label has a word with a vector; are these the vectors of {language}?")
    for split, rows in documents.items():
        gold: list[list[int]] = []
        path = Path(folder) / split / f"{language}.json"
        with whole_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
            file.write('{"X_ids": [')
            for row in rows:  # a large language takes a gigabyte as Python integers
                sentences = encode(split_sentences(row["text"]))
                columns = sorted({label_columns[label] for label in row["labels"] if label in label_columns})
                if not sentences or not columns:
                    report.leave_out("without words" if not sentences else "without labels", row["id"])
                    continue
                file.write(f"{', ' if gold else ''}{json.dumps(sentences)}")
                gold.append(columns)
            file.write(f'], "Y_ids": {json.dumps(gold)}, "label_ids": {json.dumps([*columns_by_words])}}}')
        report.records += len(gold)


if __name__ == "__main__":
    main()
