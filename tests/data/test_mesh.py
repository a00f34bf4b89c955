import gzip
import json
import sys
import tracemalloc
from xml.sax.saxutils import escape

import pytest
from papers.bioasq import mesh_ids

from hf_gile.data import load_labels
from hf_gile.data.mesh import DESCRIPTIONS, Descriptor, load_mesh, read_mesh

DESCRIPTORS = [
    Descriptor("D002318", "Cardiovascular Diseases", tree_numbers=("C14",)),
    Descriptor("D006331", "Heart Diseases", ("Cardiac Disorder",), "An ill heart.", ("C14.280",), ("Heart Disease",)),
    Descriptor(
        "D006333",
        "Heart Failure",
        ("Cardiac Failure", "Myocardial Failure & Co."),
        "The heart pumps too little blood: < 5 liters a minute.",
        ("C14.280.434",),
        ("Failure, Cardiac",),
    ),
    Descriptor("D002151", "Calcium", (), "A metal the body needs.", ("D01.268", "D01.552")),
    Descriptor("D008895", "Milk, Human", ("Breast Milk", "Lait für Säuglinge"), "", ("A12.200.467",), ("Human Milk",)),
    Descriptor("D008297", "Male"),
]


def xml(descriptors=DESCRIPTORS, encoding="utf-8"):
    records = []
    for descriptor in descriptors:
        terms = [(term, "N") for term in (descriptor.name, *descriptor.entry_terms)]
        terms += [(term, "Y") for term in descriptor.permuted_terms]
        note = f"<ScopeNote>{escape(descriptor.scope_note)}\n      </ScopeNote>" if descriptor.scope_note else ""
        numbers = "".join(f"<TreeNumber>{number}</TreeNumber>" for number in descriptor.tree_numbers)
        records.append(f"""<DescriptorRecord DescriptorClass = "1">
  <DescriptorUI>{descriptor.ui}</DescriptorUI>
  <DescriptorName>
   <String>{escape(descriptor.name)}</String>
  </DescriptorName>
  <SeeRelatedList><SeeRelatedDescriptor><DescriptorReferredTo><DescriptorUI>D000000</DescriptorUI>
    <DescriptorName><String>Another</String></DescriptorName></DescriptorReferredTo></SeeRelatedDescriptor>
  </SeeRelatedList>
  {f"<TreeNumberList>{numbers}</TreeNumberList>" if numbers else ""}
  <ConceptList>
   <Concept PreferredConceptYN="Y">
    <ConceptName><String>{escape(descriptor.name)}</String></ConceptName>
    {note}
    <TermList>{"".join(term(*pair) for pair in terms[:2])}</TermList>
   </Concept>
   <Concept PreferredConceptYN="N">
    <ScopeNote>Of a narrower concept.</ScopeNote>
    <TermList>{"".join(term(*pair) for pair in terms[2:])}</TermList>
   </Concept>
  </ConceptList>
</DescriptorRecord>
""")
    head = f'<?xml version="1.0" encoding="{encoding}"?>\n<!DOCTYPE DescriptorRecordSet SYSTEM "https://example.org/a.dtd">'
    return f'{head}\n<DescriptorRecordSet LanguageCode = "eng">\n{"".join(records)}</DescriptorRecordSet>\n'


def term(text, permuted):
    return f"""
     <Term ConceptPreferredTermYN="N" IsPermutedTermYN="{permuted}" LexicalTag="NON" RecordPreferredTermYN="N">
      <TermUI>T000001</TermUI>
      <String>{escape(text)}</String>
     </Term>"""


def ascii_mesh(descriptors=DESCRIPTORS):
    records = []
    for descriptor in descriptors:
        lines = ["*NEWRECORD", "RECTYPE = D", f"MH = {descriptor.name}", "AQ = AA AD = AE"]
        for index, entry in enumerate(descriptor.entry_terms):
            key = "ENTRY" if index else "PRINT ENTRY"
            lines.append(f"{key} = {entry}|T047|NON|EQV|NLM (1966)|741111|abcdef")
        lines += [f"ENTRY = {entry}" for entry in descriptor.permuted_terms]
        lines += [f"MN = {number}" for number in descriptor.tree_numbers]
        lines += [f"MS = {descriptor.scope_note}"] if descriptor.scope_note else []
        records.append("\n".join([*lines, "DC = 1", f"UI = {descriptor.ui}", ""]))
    return "\n".join(records)


def json_lines(descriptors=DESCRIPTORS):
    lines = []
    for descriptor in descriptors:
        row = {"ui": descriptor.ui, "name": descriptor.name, "synonyms": descriptor.entry_terms}
        row |= {"tree": descriptor.tree_numbers, "definition": descriptor.scope_note or None}
        row |= {"definition_source": None, "paths": []}
        lines.append(json.dumps(row, ensure_ascii=False))
    return "\n".join(lines)


CONTENTS = {"desc2024.xml": xml(), "d2024.bin": ascii_mesh(), "mesh.jsonl": json_lines()}


@pytest.mark.parametrize("name", ["desc2024.xml", "d2024.bin"])
def test_all_formats_give_the_same_labels(write, name, report):
    path = write(name, CONTENTS[name])
    assert list(read_mesh(path, report)) == DESCRIPTORS
    assert str(report) == "6 records from 1 file; left out: none"
    labels = load_mesh(path, DESCRIPTIONS[::-1])
    assert labels == load_mesh(write("a.mesh", CONTENTS["mesh.jsonl"]), DESCRIPTIONS[::-1])
    assert [label.synonyms for label in labels] == [descriptor.entry_terms for descriptor in DESCRIPTORS]


@pytest.mark.parametrize(("name", "content"), CONTENTS.items(), ids=CONTENTS)
def test_the_format_is_detected_by_content_and_not_by_name(write, name, content):
    expected = load_mesh(write(name, content), DESCRIPTIONS)
    marked = b"\xef\xbb\xbf" + content.encode()
    blank = "\n \n" * (name != "desc2024.xml")  # an XML declaration must be at the start
    for same in (gzip.compress(content.encode()), marked, content.replace("\n", "\r\n"), blank + content):
        assert load_mesh(write("a.txt", same), DESCRIPTIONS) == expected


def test_the_description_has_the_chosen_parts_in_the_chosen_order(write):
    path = write("a.mesh", xml())
    assert load_mesh(path, ()).texts[2:3] == ["Heart Failure"]
    terms = "Heart Failure: Cardiac Failure; Myocardial Failure & Co"
    assert load_mesh(path, ["entry_terms"]).texts[2] == terms
    assert load_mesh(path, ["tree_path", "scope_note"]).texts[2] == (
        "Heart Failure: Cardiovascular Diseases > Heart Diseases. The heart pumps too little blood: < 5 liters a minute"
    )


def test_parents_and_ancestors_are_listed_once(write):
    tree = {"Food": "G07", "Milk": "G07.3", "Fluids": "A12", "Body": "A12.5"}
    tree |= {"Human Milk": "A12.5.7 G07.3.5 G07.3.9 Z9.9", "Colostrum": "A12.5.7.1 G07.3.5.1 A12.5.7.1.2"}
    descriptors = [Descriptor(name, name, tree_numbers=tuple(numbers.split())) for name, numbers in tree.items()]
    labels = load_mesh(write("a.mesh", ascii_mesh(descriptors)), "tree_path")
    assert [label.broader for label in labels[4:]] == [("Body", "Milk"), ("Human Milk",)]
    colostrum = "Colostrum: Fluids > Body > Human Milk; Food > Milk"
    assert labels.texts[4:] == ["Human Milk: Fluids > Body; Food > Milk", colostrum]


def test_entry_terms_are_read_without_duplicates_and_the_name(write):
    terms = "ENTRY = Milk|T1|NON\nENTRY = Mom's  Milk|T1|NON\nENTRY = Mom's Milk|T1|NON\nENTRY = |T1|NON\nENTRY =\n"
    record = f"*NEWRECORD\nMH          = Milk\n{terms}ENTRY       = Bank, Gene\nUI = D3"
    expected = Descriptor("D3", "Milk", ("Mom's Milk",), permuted_terms=("Bank, Gene",))
    assert list(read_mesh(write("a.mesh", record))) == [expected]


def test_markup_in_a_definition_is_dropped(write):
    definition = "1'<i>S</i>-acid, p < .05 > 0, <a href='b'>see</a> <em>this</em> of 10<sup>3</sup> kg"
    path = write("a.mesh", json.dumps({"ui": "D3", "name": "Acid", "definition": definition}))
    assert load_mesh(path, "scope_note").texts == ["Acid: 1'S-acid, p < .05 > 0, see this of 10^3 kg"]


def test_qualifiers_and_supplementary_concepts_are_counted(write, report):
    unread = "*NEWRECORD\nRECTYPE = Q\nSH = abnormalities\nUI = Q3\n*NEWRECORD\nRECTYPE = C\nNM = mesna\nUI = C5\n"
    assert len(list(read_mesh(write("a.mesh", unread + ascii_mesh()), report))) == 6
    assert report.left_out == {"not a descriptor": 2}
    assert report.examples["not a descriptor"][1].endswith("a.mesh: line 5")


def test_headings_and_unambiguous_entry_terms_map_to_ids(write, report):
    heart = Descriptor("D3", "Heart", ("Cor", "Pump", "Lungs"), permuted_terms=("Hearts",))
    ids = mesh_ids(write("a.mesh", xml([heart, Descriptor("D5", "Lungs", ("Pump",))])), report)
    assert ids == {"Heart": "D3", "Cor": "D3", "Hearts": "D3", "Lungs": "D5"}
    assert report.left_out == {"name of several descriptors": 1}
    assert report.examples["name of several descriptors"][0].endswith("'Pump' belongs to D3, D5")


@pytest.mark.parametrize("name", ["d2024.bin", "mesh.jsonl"])
def test_a_chosen_encoding_is_read_and_a_likely_one_named(write, name, lenient):
    expected = load_mesh(write("a.mesh", CONTENTS[name]))
    latin = write("a.mesh", CONTENTS[name].encode("latin-1"))
    assert load_mesh(latin, encoding="latin-1") == load_labels(latin, encoding="latin-1") == expected
    message = 'is not utf-8; if the file is in windows-1252, pass encoding="windows-1252"'
    with pytest.raises(ValueError, match=rf"a\.mesh: line \d+: .*{message}"):
        load_mesh(latin, encoding="utf-8")
    assert len(load_mesh(latin, report=lenient, encoding="utf-8")) == 5
    assert list(lenient.left_out.values()) == [1]


@pytest.mark.parametrize("encoding", ["iso-8859-1", "utf-16"])
def test_the_declared_encoding_is_read(write, encoding):
    assert list(read_mesh(write("a.mesh", xml(encoding=encoding).encode(encoding)))) == DESCRIPTORS


RECORD = ascii_mesh([Descriptor("D3", "Milk")])
MALFORMED = {
    "ASCII without a UI": (RECORD.replace("UI = D3", ""), "a descriptor needs a UI and a name, got '' and 'Milk'"),
    "ASCII with a bad tree number": (RECORD + "MN = 14.280", "a tree number of D3 must look like C14.280.434"),
    "ASCII of two merged records": (RECORD + "MH = Iron", "MH occurs 2 times: records may be merged"),
    "ASCII with a line that is none": (RECORD + "Iron", "expected KEY = VALUE, got 'Iron' in line 14"),
    "JSON without a UI": ('{"name": "Milk"}', "expected an object with the keys ui and name, got {'name': 'Milk'}"),
    "JSON with text for a list": ('{"ui": "D3", "name": "Milk", "synonyms": "a"}', "synonyms must be a list of text"),
    "a list": ("[5]", r"expected an object, got \[5\]"),
    "XML without a name": (xml([Descriptor("D3", "")]), "needs a UI and a name, got 'D3' and ''"),
}


@pytest.mark.parametrize(("bad", "message"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_descriptor_is_named_by_line_or_skipped(write, bad, message, lenient):
    if bad.startswith("<"):
        records = bad.partition('"eng">\n')[2].removesuffix("</DescriptorRecordSet>\n")
        content = xml(DESCRIPTORS[:1]).replace("</DescriptorRecordSet>", records + "</DescriptorRecordSet>")
        line = 29
    elif bad.startswith("*"):
        content, line = ascii_mesh(DESCRIPTORS[:1]) + bad, 8
    else:
        content, line = json_lines(DESCRIPTORS[:1]) + "\n" + bad, 2
    with pytest.raises(ValueError, match=rf'a\.mesh: line {line}: .*{message}.*on_error="skip"'):
        load_mesh(write("a.mesh", content))
    assert load_mesh(write("a.mesh", content), report=lenient).ids == ["D002318"]
    assert list(lenient.left_out.values()) == [1]


REPEATED = r"line \d+: D3 is already defined in .*: line \d; ids must be unique"


@pytest.mark.parametrize("form", [xml, json_lines])
@pytest.mark.parametrize(
    ("problem", "other", "message"),
    [
        ("repeated id", Descriptor("D3", "Copper"), REPEATED),
        ("repeated tree number", Descriptor("D5", "Iron", tree_numbers=("C14",)), "D5 has the tree number C14 of"),
    ],
)
def test_repetitions_are_named_or_left_out(write, form, problem, other, message, lenient):
    path = write("a.mesh", form([Descriptor("D3", "Milk", tree_numbers=("C14",)), other]))
    with pytest.raises(ValueError, match=rf"a\.mesh: {message}"):
        load_mesh(path)
    assert len(load_mesh(path, report=lenient)) == (1 if problem == "repeated id" else 2)
    assert lenient.left_out == {problem: 1}


def test_headings_with_the_same_name_are_distinguished(write):
    numbers = {"D3": "C14.3", "D5": "D01.5", "D6": "C14", "D7": "D01"}
    names = {"D3": "Mercury", "D5": "Mercury", "D6": "Diseases", "D7": "Metals"}
    path = write("a.mesh", ascii_mesh([Descriptor(ui, names[ui], tree_numbers=(numbers[ui],)) for ui in names]))
    assert load_mesh(path).texts == ["Mercury: Diseases", "Mercury: Metals", "Diseases", "Metals"]
    assert mesh_ids(path) == {"Diseases": "D6", "Metals": "D7"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected MeSH in XML .*, ASCII or JSON lines, got content of the kind 'empty'"),
        ("id,name\nD3,Milk\n", "expected MeSH in XML .*, ASCII or JSON lines, got content of the kind 'text'"),
        ("[{}]", "record 1: expected an object with the keys ui and name, got {}"),
        ("<html><body/></html>", "is a web page"),
        ('<SupplementalRecordSet LanguageCode="eng"/>', r"\(a DescriptorRecordSet\), .* got content of the kind 'xml'"),
        (xml()[:-300], "damaged after 5 records"),
        (xml().replace("Cardiac Failure", "Cardiac\0Failure"), "damaged after 2 records"),
        (xml().replace("Breast", "&Breast;"), "damaged after 6 records: Entity 'Breast' not defined, line 147"),
        (xml([]), "no descriptors: 0 records from 1 file; left out: none"),
    ],
)
def test_damaged_files_and_files_of_another_format_are_refused(write, content, message):
    with pytest.raises(ValueError, match=rf"a\.mesh:? .*{message}"):
        load_mesh(write("a.mesh", content))


@pytest.mark.parametrize("form", [xml, ascii_mesh, json_lines])
def test_skip_mode_keeps_descriptors_before_damage_in_a_compressed_file(write, form, lenient):
    many = [Descriptor(f"D{row}", f"Milk {row}") for row in range(1009)]
    packed = gzip.compress(form(many).encode(), compresslevel=0)
    path = write("a.mesh", packed[: len(packed) // 2])
    assert len(load_mesh(path, report=lenient)) >= 300
    assert lenient.left_out["damaged file"] == 1
    with pytest.raises(ValueError, match=r"a\.mesh: damaged after [\d,]+ records"):
        load_mesh(path)


@pytest.mark.parametrize("name", CONTENTS)
def test_memory_does_not_grow_with_the_file(write, name):
    note = "milk" * 6007
    many = [Descriptor(f"D{row}", f"Milk {row}", scope_note=note) for row in range(503)]
    form = {"desc2024.xml": xml, "d2024.bin": ascii_mesh, "mesh.jsonl": json_lines}[name]
    path = write("a.mesh", form(many))
    tracemalloc.start()
    assert sum(1 for _ in read_mesh(path)) == 503
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_000_000


@pytest.mark.parametrize("form", [ascii_mesh, json_lines])
def test_a_line_beyond_the_limit_is_refused(write, monkeypatch, form):
    monkeypatch.setattr("hf_gile.data.table_files.MAX_RECORD", 1 << 10)
    long = Descriptor("D3", "Milk", scope_note="milk " * 1009)
    with pytest.raises(ValueError, match=r"damaged after 0 records: a line is longer than 1,024 bytes"):
        load_mesh(write("a.mesh", form([long])))


def test_missing_files_invalid_choices_and_missing_parsers_are_named(write, monkeypatch, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*nowhere.xml \(in "):
        load_mesh(tmp_path / "nowhere.xml")
    with pytest.raises(ValueError, match=r"expected names among entry_terms, .* got \['synonyms'\]"):
        load_mesh(tmp_path, "synonyms")
    monkeypatch.setitem(sys.modules, "lxml", None)
    with pytest.raises(ImportError, match=r"pip install 'hf-gile\[data\]'"):
        load_mesh(write("a.mesh", xml()))
    assert len(load_mesh(write("a.mesh", ascii_mesh()))) == 6


@pytest.mark.slow
def test_the_whole_of_mesh_loads(shared_data, report):
    labels = load_mesh(shared_data / "mesh" / "mesh_labels.jsonl.gz", DESCRIPTIONS, report)
    assert str(report) == "30,764 records from 1 file; left out: none"
    assert len(labels) == 30_764
    assert not any("<em>" in text or "\n" in text for text in labels.texts)
    assert labels[labels.column("D000006")].text.startswith("Abdomen, Acute: Abdomens, Acute; Acute Abdomen; ")
