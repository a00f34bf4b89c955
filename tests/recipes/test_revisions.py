"""Citations that later files revise or delete."""

import gzip
import random
from functools import partial

import medline_xml
import numpy as np
import pytest
from medline_xml import deletion, document
from papers import revisions
from papers.revisions import CURRENT, DELETED, SUPERSEDED, Scan, compute_fates, scan

COMMENT = '<CommentsCorrections RefType="Cites"><PMID Version="1">999</PMID></CommentsCorrections>'
BOOK = '<PubmedBookArticle><BookDocument><PMID Version="1">998</PMID></BookDocument></PubmedBookArticle>'


citation = partial(medline_xml.citation, after=COMMENT)


@pytest.fixture
def scanned(write):
    return lambda content, name="a.xml": tuple(part.tolist() for part in scan(write(name, content)))


@pytest.fixture
def search_only(monkeypatch):
    monkeypatch.setattr(revisions, "_parse_xml", None)


def test_a_scan_finds_citations_and_deletions_in_order(scanned, search_only):
    content = document(citation(7), BOOK, citation(5, 2), deletion(11, 13))
    assert scanned(content) == ([7, 5], [1, 2], [[2, 11], [2, 13]])
    assert scanned(content, "a.xml.gz") == scanned(content)
    assert scanned(document(deletion(3), citation(3), deletion())) == ([3], [1], [[0, 3]])
    assert scanned(document()) == ([], [], [])


@pytest.mark.parametrize("chunk", [61, 1009])
def test_a_scan_does_not_depend_on_the_chunk_size(scanned, monkeypatch, search_only, chunk):
    parts = [citation(pmid) for pmid in range(1, 102)]
    content = document(*parts, deletion(*range(200, 300)), doctype="")
    monkeypatch.setattr(revisions, "_CHUNK", chunk)
    pmids, _, deletions = scanned(content)
    assert pmids == list(range(1, 102))
    assert deletions == [[101, pmid] for pmid in range(200, 300)]


ODD = {
    "a comment": document(f"<!-- {citation(3)} -->", citation(5)),
    "a sign of markup in an attribute": document(citation(5).replace('"MEDLINE"', '"a > b"')),
    "a comment before the pmid": document(citation(5).replace("<PMID", "<!-- <PMID>3</PMID> --><PMID", 1)),
    "an entity": document(citation("&five;"), doctype='<!DOCTYPE PubmedArticleSet [<!ENTITY five "5">]>'),
    "UTF-16": document(citation(5), encoding="utf-16"),
}


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_ambiguous_xml_is_left_to_the_parser(scanned, content):
    assert scanned(content) == ([5], [1], [])


def test_damaged_files_report_the_readable_citations(scanned):
    random_pmids = [random.Random(i).randrange(1, 10**8) for i in range(1009)]
    packed = gzip.compress(document(*map(citation, random_pmids)))
    pmids, *_ = scanned(packed[: len(packed) // 2])
    assert 100 < len(pmids) < 1009
    assert pmids == random_pmids[: len(pmids)]
    assert scanned(packed[:-3])[0] == random_pmids


def test_a_scan_finds_every_citation_of_a_real_file(medline_file, search_only, first_citations):
    result = scan(medline_file)
    pmids = [int(record["pmid"]) for record in first_citations]
    assert result.pmids.tolist()[: len(pmids)] == pmids
    assert len(result.pmids) == 30_000
    assert set(result.versions.tolist()) == {1}
    assert len(result.deletions) == 0


def test_the_newest_version_is_the_same_as_in_sequential_reading():
    generator = random.Random(0)
    scans, sequential, newest = [], [], {}
    for _ in range(11):
        pmids = [generator.randrange(1, 60) for _ in range(generator.randrange(30))]
        versions = [generator.choice([1, 1, 1, 2]) for _ in pmids]
        deletions = [[generator.randrange(len(pmids) + 1), generator.randrange(1, 60)] for _ in range(3)]
        scans.append(Scan(np.array(pmids, np.uint32), np.array(versions, np.uint8), np.array(deletions, np.uint32)))
        for number in range(len(pmids) + 1):
            for after, pmid in deletions:
                if after == number and pmid in newest:
                    sequential[newest.pop(pmid)[1]] = DELETED
            if number < len(pmids):
                version, position = newest.get(pmids[number], (0, None))
                sequential.append(CURRENT)
                if versions[number] < version:
                    sequential[-1] = SUPERSEDED
                    continue
                if position is not None:
                    sequential[position] = SUPERSEDED
                newest[pmids[number]] = (versions[number], len(sequential) - 1)
    assert compute_fates(scans).tolist() == sequential
