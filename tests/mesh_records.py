"""Makes records of abstracts with MeSH headings, for the tests of splits."""

import random


def make_records(count=2003, labels=101, seed=0):
    """Returns records with label frequencies as unequal as those of headings."""
    generator = random.Random(seed)
    ids = [f"D{number:06}" for number in range(labels)]
    weights = [1 / (rank + 1) for rank in range(labels)]
    records = []
    for pmid in range(1, count + 1):
        chosen = sorted(set(generator.choices(ids, weights, k=generator.randint(1, 7))))
        record = {"pmid": str(pmid), "title": "", "abstractText": "Mice.", "year": 1976}
        records.append(record | {"meshUI": chosen, "meshMajor": [f"name of {ui}" for ui in chosen]})
    return records


def labels_of(records):
    return {label for record in records for label in record["meshUI"]}
