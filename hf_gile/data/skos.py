"""Reader of vocabularies in RDF, such as thesauri, as labels.

    @prefix skos: <http://www.w3.org/2004/02/skos/core#> .
    @prefix ex: <http://example.org/> .

    ex:1 a skos:Concept ; skos:prefLabel "heart"@en, "Herz"@de ; skos:narrower ex:2 .
    ex:2 a skos:Concept ; skos:prefLabel "heart valve"@en ; skos:altLabel "cardiac valve"@en ;
        skos:definition "Keeps blood from flowing back."@en .

Besides SKOS and SKOS-XL, the kinds in `rdf_profiles` are read: GND, MeSH RDF, MADS/RDF, schema.org and OWL. `rdf` has
the file formats. Only texts in the requested languages and links between concepts are stored in memory.
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from ..models.labels_gile import Label, LabelSet
from .files import Paths, find_files
from .homonyms import join_descriptions, make_labels
from .rdf import SUFFIXES, parse_rdf
from .rdf_profiles import (
    CONVERT,
    DEFINITIONS,
    NO_LABELS,
    PROFILES,
    RETIRED,
    RETIRED_CLASSES,
    SYNONYMS,
    Profile,
    expand,
    link_role,
    local_name,
    normalize,
    shorten,
)
from .report import LeaveOut, ReadReport
from .schema import as_names, clean_label, plain_text

DESCRIPTIONS = ("alt_labels", "definition", "broader")
"""Possible parts of the description of a concept."""

_NAMES = [paths for profile in PROFILES for paths in profile.names]
_PATHS = {paths: [path.split("/") for path in paths.split()] for paths in (*_NAMES, *SYNONYMS, *DEFINITIONS)}
_STEPS = {step for paths in _PATHS.values() for steps in paths for step in steps}
_NAME_STEPS = {steps[0] for paths in _NAMES for steps in _PATHS[paths]}
_XL_LABEL = expand("skosxl:Label")

_Rank = tuple[int, bool]  # of a language, and whether it is regional
_Text = tuple[int, bool, str, str]  # rank, tag and text


def load_skos(
    paths: Paths,
    language: str | Iterable[str] = "en",
    describe: str | Iterable[str] = "definition",
    report: ReadReport | None = None,
) -> LabelSet:
    """Reads concepts as a label set. URIs are label ids, alternative labels synonyms, and `broader` has the parents.

    In SKOS, a concept is a member of `skos:Concept` or a subclass, has a broader or narrower concept, or is in a scheme
    and has a preferred label. Concepts without a URI, deprecated concepts and concepts without a name in the languages
    are skipped and counted. Of several names in a language, the alphabetically first is used. If concepts have the same
    name and description, a broader concept, the definition, alternative labels, notation or URI is appended to their
    descriptions.

    Args:
        paths: Files, with any name, and folders (not searched recursively) of a vocabulary.
        language: Language tags in order of preference. `"en"` matches `en-GB` if `en` is missing. Untagged texts are
            used if there is no text in any of the languages.
        describe: Parts of the descriptions, in order: any of `"alt_labels"`, `"definition"` (or else the scope note)
            and `"broader"`, the names of ancestors from the top. Of several broader concepts, the first by URI is
            followed.
        report: Counts concepts and decides whether malformed input raises (the default).

    Returns:
        The concepts in natural order of their URIs, where 10 comes after 9.

    Raises:
        ImportError: If rdflib is not installed.
        FileNotFoundError: If a path does not exist.
        ValueError: If a folder has no file of a known format, `describe` is invalid, or no concept is usable; also if a
            file is malformed, unless the report says to skip, which keeps everything before the damage.
    """
    report = report or ReadReport()
    requested = as_names(describe, DESCRIPTIONS)
    if isinstance(language, str):
        language = [language]
    statements = _Statements([*language])
    first, *more = find_files(paths, SUFFIXES, any_name=True)
    for file in (first, *more):
        parse_rdf(file, statements.add, report)
    source = f"{first} and {len(more):,} more" if more else str(first)
    vocabularies = (_Vocabulary(statements, profile) for profile in PROFILES)
    vocabulary = next(filter(_Vocabulary.is_present, vocabularies), _Vocabulary(statements, PROFILES[0]))
    before = report.records

    def concepts() -> Iterator[tuple[str, str]]:
        for concept in sorted(vocabulary.concepts, key=_natural_key):
            yield f"{source}: {concept}", concept
        if report.records == before:
            raise ValueError(f"{source}: {vocabulary.summary()}; {report}")
        if vocabulary.profile is not PROFILES[0]:
            report.note(f"read as {vocabulary.profile.title}")
        for paths, count in vocabulary.substitutes.items():
            report.note(f"{count:,} names are from {paths}")

    read = partial(vocabulary.label, requested=requested)
    return make_labels(concepts(), read, report, source)


class _Statements:
    """The statements needed for labels."""

    def __init__(self, languages: Sequence[str]) -> None:
        if not languages or not all(isinstance(tag, str) and tag for tag in languages):
            raise ValueError(f'language must be a tag such as "en", or several, got {list(languages)!r}')
        self.languages = [tag.lower() for tag in languages]
        self.retired: set[str] = set()
        self.containers: set[str] = set()  # schemes and collections
        self.members: dict[str, set[str]] = defaultdict(set)  # by class
        self.notations: dict[str, list[str]] = defaultdict(list)
        self.links: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))  # by role
        # By step of a path: texts, or resources that lead on; none for a name in other languages.
        self.texts: dict[str, dict[str, list[_Text | str]]] = defaultdict(lambda: defaultdict(list))
        self.tags: dict[str, Counter[str]] = defaultdict(Counter)
        self.properties: Counter[str] = Counter()  # others with texts
        self._ranks: dict[str | None, tuple[str, _Rank | None]] = {
            None: ("", (len(languages), False)),
            "mul": ("mul", (len(languages), False)),  # Wikidata's name in all languages
        }
        self._actions: dict[str, Callable[[str, Any], None]] = {}
        self._subject: Any = None
        self._subject_name = ""

    def add(self, subject: Any, predicate: Any, value: Any) -> None:
        """Stores a statement if it is needed."""
        if subject is not self._subject:  # statements about a resource follow each other
            self._subject = subject
            self._subject_name = _name(subject)
        key = str(predicate)  # texts are found faster than nodes
        if key not in self._actions:
            self._actions[key] = self._action(normalize(key))
        self._actions[key](self._subject_name, value)

    def _action(self, predicate: str) -> Callable[[str, Any], None]:
        """Returns what stores the statements of a property."""
        if predicate == expand("rdf:type"):
            return self._add_class
        if predicate == expand("skos:notation"):
            return lambda subject, value: self.notations[subject].append(str(value))
        if predicate == expand("skos:member"):
            return lambda subject, value: self.containers.add(subject)
        if link := link_role(predicate):
            return partial(self._add_link, *link)
        if values := RETIRED.get(local_name(predicate)):
            return partial(self._add_status, values)
        for step in _STEPS:
            if fnmatchcase(predicate, expand(step)):
                return partial(self._add_text, step)
        return partial(self._count, predicate)

    def members_of(self, classes: Iterable[str]) -> set[str]:
        """Returns the members of any of the classes."""
        return set[str]().union(*(self.members.get(name, ()) for name in classes))

    def _add_class(self, subject: str, value: Any) -> None:
        uri = sys.intern(normalize(str(value)))
        if NO_LABELS.search(uri):
            self.containers.add(subject)
        if local_name(uri).startswith(RETIRED_CLASSES):
            self.retired.add(subject)
        if uri != _XL_LABEL:  # these are many, and none is a concept
            self.members[uri].add(subject)

    def _add_link(self, role: str, is_inverse: bool, subject: str, value: Any) -> None:
        if is_inverse:
            self.links[role][_name(value)].append(subject)
        else:
            self.links[role][subject].append(_name(value))

    def _add_status(self, values: re.Pattern[str], subject: str, value: Any) -> None:
        if values.fullmatch(local_name(str(value).strip())):
            self.retired.add(subject)

    def _count(self, predicate: str, subject: str, value: Any) -> None:
        self.properties[predicate] += hasattr(value, "language")

    def _add_text(self, step: str, subject: str, value: Any) -> None:
        if not hasattr(value, "language"):  # not a literal
            self.texts[step][subject].append(_name(value))
            return
        tag, rank = self._rank(value.language)
        self.tags[step][tag] += 1
        if rank is None and step not in _NAME_STEPS:
            return
        if text := clean_label(plain_text(value)):
            texts = self.texts[step][subject]
            if rank is not None:
                texts.append((*rank, tag, text))

    def _rank(self, tag: str | None) -> tuple[str, _Rank | None]:
        """Returns a tag in lower case and its rank, None for other languages."""
        if tag not in self._ranks:
            lowered = str(tag).lower()
            matches = (
                (rank, lowered != language)
                for rank, language in enumerate(self.languages)
                if f"{lowered}-".startswith(f"{language}-")
            )
            self._ranks[tag] = lowered, next(matches, None)
        return self._ranks[tag]


class _Vocabulary:
    """The concepts of a kind of vocabulary."""

    def __init__(self, statements: _Statements, profile: Profile) -> None:
        self.statements = statements
        self.profile = profile
        self.concepts = self._find_concepts() - statements.containers
        self.substitutes: Counter[str] = Counter()  # properties with names, other than the usual
        self._paths = {  # of which the file has any
            paths: [steps for steps in chains if statements.texts[steps[0]]] for paths, chains in _PATHS.items()
        }

    def _find_concepts(self) -> set[str]:
        statements = self.statements
        named = {subject for steps in _PATHS[self.profile.names[0]] for subject in statements.texts[steps[0]]}
        named -= statements.containers
        if not self.profile.classes:
            return named
        classes = self._add_subclasses(_classes(self.profile))
        members = statements.members_of(classes)
        if self.profile is not PROFILES[0]:
            return members
        in_scheme = set(statements.links["scheme"])
        if members:
            in_scheme -= statements.members_of(statements.members.keys() - classes)
        implied = in_scheme
        for role in ("broader", "ancestors"):
            implied = implied.union(statements.links[role], *statements.links[role].values())
        concepts = members | (implied & named)
        if concepts - statements.containers:
            return concepts
        # As a last resort, whatever has a preferred label, unless most of these are of another kind of vocabulary.
        others = named & statements.members_of(set[str]().union(*map(_classes, PROFILES[1:])))
        return named - others if len(others) <= 0.5 * len(named) else set()

    def _add_subclasses(self, classes: set[str]) -> set[str]:
        subclasses = defaultdict(set)
        for start, ends in self.statements.links["subclass"].items():
            for end in ends:
                subclasses[end].add(start)
        waiting = list(classes)
        while waiting:
            new = subclasses[waiting.pop()] - classes
            classes |= new
            waiting += new
        return classes

    def is_present(self) -> bool:
        """Checks whether a concept has a name in any language."""
        return any(self._is_named(paths, concept) for concept in self.concepts for paths in self.profile.names)

    def _is_named(self, paths: str, subject: str) -> bool:
        """Checks whether there is a name in any language."""
        return any(subject in self.statements.texts[steps[0]] for steps in self._paths[paths])

    def _texts(self, paths: str, subject: str) -> list[str]:
        """Returns texts in the best available language, plain tags before regional tags."""
        result: list[_Text] = []
        for steps in self._paths[paths]:
            values: list[Any] = [subject]
            for step in steps:
                texts = self.statements.texts[step]
                values = [value for name in values if isinstance(name, str) for value in texts.get(name, ())]
            result += [value for value in values if not isinstance(value, str)]
        result.sort()
        return list(dict.fromkeys(text for rank, _, _, text in result if rank == result[0][0]))

    def _name(self, concept: str) -> tuple[str, str]:
        """Returns the name, or an empty string, and the paths where it is."""
        for paths in self.profile.names:
            if self._is_named(paths, concept):
                return next(iter(self._texts(paths, concept)), ""), paths
        return "", ""

    def label(self, concept: str, requested: Iterable[str]) -> tuple[Label, list[str]]:
        """Returns the label of a concept, and texts that distinguish it from others with its name."""
        name, paths = self._name(concept)
        if reason := self._reason(concept, name, paths):
            raise LeaveOut(reason, concept)
        if paths != self.profile.names[0]:
            self.substitutes[paths] += 1
        usual_synonyms, hidden = (self._texts(paths, concept) for paths in SYNONYMS)
        definitions = [text for paths in DEFINITIONS for text in self._texts(paths, concept)]
        texts = {
            "alt_labels": "; ".join(text for text in usual_synonyms if text != name),
            "definition": "".join(definitions[:1]),
        }
        if "broader" in requested:
            texts["broader"] = " > ".join(reversed(list(self._ancestor_names(concept))))
        label = Label(
            concept,
            name,
            join_descriptions(texts[choice] for choice in requested),
            synonyms=tuple(dict.fromkeys(text for text in usual_synonyms + hidden if text != name)),
            broader=self._parents(concept),
        )
        notation = min(self.statements.notations.get(concept, [""]))
        parent = next(self._ancestor_names(concept), "")
        return label, [parent, texts["definition"], texts["alt_labels"], notation, local_name(concept)]

    def _reason(self, concept: str, name: str, paths: str) -> str:
        """Says why a concept is left out; empty if it is a label."""
        if concept.startswith("_:"):
            return "without a URI"
        if concept in self.statements.retired:
            return "deprecated"
        if not paths:
            return "without a name"
        return "" if name else f"without a name in {' or '.join(self.statements.languages)}"

    def _parents(self, concept: str) -> tuple[str, ...]:
        links = self.statements.links
        for role in ("broader", "subclass", "ancestors"):
            parents = self.concepts.intersection(links[role].get(concept, ())) - {concept}
            if role == "ancestors":  # the nearest
                higher = {end for parent in parents for end in links[role].get(parent, ())}
                parents = parents - higher or parents
            if parents:
                return tuple(sorted(parents, key=_natural_key))
        return ()

    def _ancestor_names(self, concept: str) -> Iterator[str]:
        """Yields the names of ancestors up to the top."""
        seen = {concept}
        while parents := [parent for parent in self._parents(concept) if parent not in seen]:
            concept = parents[0]
            seen.add(concept)
            if name := self._name(concept)[0]:
                yield name

    def summary(self) -> str:
        """Summarizes the content for the message that no concept is usable."""
        statements = self.statements
        steps = {steps[-1] for paths in self.profile.names for steps in self._paths[paths]}
        tags = sum((statements.tags[step] for step in steps), Counter[str]())
        listed = ", ".join(f"{tag or 'no language':.30} ({count:,})" for tag, count in tags.most_common(30))
        requested = " or ".join(statements.languages)
        text = f"{len(self.concepts):,} concepts; names requested in {requested}, available in {listed or 'none'}"
        if all(concept.startswith("_:") for concept in self.concepts) and self.concepts:
            return f"{text}; no concept has a URI, the id of a label: write it, as rdf:about of XML"
        if self.is_present():
            return f"{text}; choose others with language=... (--label_language)"
        classes = Counter({name: len(members) for name, members in statements.members.items()})
        texts = statements.properties + Counter({step: tags.total() for step, tags in statements.tags.items()})
        expected = ", ".join(profile.title for profile in PROFILES)
        return (
            f"{text}; expected {expected}, got the classes {_format(classes)} and texts in {_format(texts)}: {CONVERT}"
        )


def _classes(profile: Profile) -> set[str]:
    return set(map(expand, profile.classes.split()))


def _name(node: Any) -> str:
    """Returns the URI, or a name of a blank node."""
    return sys.intern(str(node) if hasattr(node, "defrag") else f"_:{node}")


def _format(counts: Counter[str]) -> str:
    return ", ".join(f"{shorten(name):.100} ({count:,})" for name, count in counts.most_common(10)) or "none"


def _natural_key(uri: str) -> list[Any]:
    # Numbers by length and digits, since int() refuses very long numbers.
    parts = re.split("([0-9]+)", uri)
    return [(len(part.lstrip("0")), part.lstrip("0"), part) if index % 2 else part for index, part in enumerate(parts)]
