"""Training rows with a document of each language."""

from papers.multilingual import MultilingualDataset


def numbered(size):
    return [{"input_ids": [row]} for row in range(size)]


def test_every_row_has_a_document_of_each_language():
    rows = MultilingualDataset({"english": numbered(7), "german": numbered(3)})
    assert len(rows) == 7
    assert [[document["language"] for document in rows[row]] for row in range(7)] == [["english", "german"]] * 7
    assert sorted(rows[row][0]["input_ids"][0] for row in range(7)) == list(range(7))
    german = [rows[row][1]["input_ids"][0] for row in range(7)]
    assert sorted(german[:3]) == sorted(german[3:6]) == [0, 1, 2]


def test_rows_depend_only_on_seed_and_epoch():
    def draw(seed, epoch):
        rows = MultilingualDataset({"english": numbered(50)}, rounds=20, seed=seed)
        rows.set_epoch(epoch)
        return [rows[row][0]["input_ids"][0] for row in range(20)]

    assert draw(0, 3) == draw(0, 3)
    assert len({tuple(draw(*each)) for each in ((0, 3), (0, 4), (1, 3))}) == 3
    assert len(set(draw(0, 3))) == 20
