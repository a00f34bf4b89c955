"""Where vocabularies in RDF have their labels, by the classes and properties that they use."""

import re
from typing import NamedTuple

PREFIXES = {
    "dc": "http://purl.org/dc/elements/1.1/",
    "dct": "http://purl.org/dc/terms/",
    "gndo": "http://d-nb.info/standards/elementset/gnd#",
    "madsrdf": "http://www.loc.gov/mads/rdf/v1#",
    "meshv": "http://id.nlm.nih.gov/mesh/vocab#",
    "obo": "http://purl.obolibrary.org/obo/",
    "oboInOwl": "http://www.geneontology.org/formats/oboInOwl#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "schema": "http://schema.org/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "skosxl": "http://www.w3.org/2008/05/skos-xl#",
}
"""Prefixes of the names below, which are compared as `normalize` writes them."""

CONVERT = "convert it to SKOS, or to a table with the columns id and name"
"""What to do with other files."""


class Profile(NamedTuple):
    """How a kind of vocabulary names its labels.

    A path such as `skosxl:prefLabel/skosxl:literalForm` leads over a resource to its texts; a star stands for any end
    of a name. The paths of an item are separated by spaces and equivalent; earlier items are preferred.

    Args:
        title: Name of the kind.
        classes: Classes of labels. Without classes, labels are the resources with a name of the first item.
        names: Paths to names.
    """

    title: str
    classes: str
    names: tuple[str, ...]


PROFILES = (
    Profile(
        "SKOS",
        classes="skos:Concept",
        names=(
            "skos:prefLabel skosxl:prefLabel/skosxl:literalForm",
            "rdfs:label",
            "schema:name",
            "dct:title dc:title",
        ),
    ),
    Profile("GND", classes="", names=("gndo:preferredName*",)),
    Profile(
        "MeSH RDF",
        classes="meshv:Descriptor meshv:TopicalDescriptor meshv:GeographicalDescriptor meshv:PublicationType "
        "meshv:CheckTag",
        names=("rdfs:label",),
    ),
    Profile("MADS/RDF", classes="", names=("madsrdf:authoritativeLabel",)),
    Profile("schema.org", classes="schema:DefinedTerm schema:CategoryCode", names=("schema:name", "rdfs:label")),
    Profile("OWL", classes="owl:Class rdfs:Class", names=("rdfs:label", "skos:prefLabel")),
)
"""The known kinds; the first that gives labels is used."""

SYNONYMS = (
    "skos:altLabel "
    "skosxl:altLabel/skosxl:literalForm "
    "gndo:variantName* "
    "madsrdf:hasVariant/madsrdf:variantLabel "
    "meshv:preferredConcept/meshv:preferredTerm/meshv:prefLabel "
    "meshv:preferredConcept/meshv:term/meshv:prefLabel "
    "meshv:concept/meshv:preferredTerm/meshv:prefLabel "
    "meshv:concept/meshv:term/meshv:prefLabel "
    "schema:alternateName "
    "oboInOwl:hasExactSynonym "
    "obo:IAO_0000118",
    "skos:hiddenLabel skosxl:hiddenLabel/skosxl:literalForm",
)
"""Paths to synonyms of all kinds; descriptions have only those of the first item."""

DEFINITIONS = (
    "obo:IAO_0000115",
    "skos:definition skos:definition/rdf:value "
    "gndo:definition "
    "madsrdf:definitionNote "
    "meshv:preferredConcept/meshv:scopeNote meshv:scopeNote",
    "skos:scopeNote skos:scopeNote/rdf:value madsrdf:scopeNote",
    "dct:description dc:description schema:description",
    "rdfs:comment",
)
"""Paths to definitions of all kinds."""

NO_LABELS = re.compile(
    r"(Collection|ConceptScheme|ConceptGroup|ThesaurusArray|Ontology|MetadataSet|Dataset"
    r"|owl#\w*Property|ns#Property|ontology#Property)$"
)
"""Ends of classes whose members are no labels, though they have names and schemes."""

RETIRED_CLASSES = ("Deprecated", "Obsolete")
"""Starts of local names of classes whose members are no longer to be used."""

_LINKS = {  # by local name: the role, and whether the link is inverse
    "inScheme": ("scheme", False),
    "topConceptOf": ("scheme", False),
    "hasTopConcept": ("scheme", True),
    "inDefinedTermSet": ("scheme", False),
    "subClassOf": ("subclass", False),
}
_BROADER = re.compile(r"(?:has)?(broader|narrower)(transitive|\w*extended)?(?!\w*match)\w*", re.IGNORECASE)
_RETIRED = re.compile(
    r".*(deprecated|obsolete|withdrawn|retired|superseded|invalid|archaic|rejected|replaced|removed).*", re.IGNORECASE
)
_TRUE = re.compile(r"true|1|yes", re.IGNORECASE)
RETIRED = {
    "active": re.compile(r"false|0", re.IGNORECASE),
    **dict.fromkeys(("deprecated", "isDeprecated", "obsolete", "isObsolete"), _TRUE),
    **dict.fromkeys(("status", "hasStatus", "conceptStatus", "term_status"), _RETIRED),
    # IAO_0100001 is "term replaced by" of OBO.
    **dict.fromkeys(("isReplacedBy", "replacedBy", "supersededBy", "IAO_0100001"), re.compile(".*")),
}
"""Values, by local name of a property, that say that a label is no longer to be used."""


def normalize(uri: str) -> str:
    """Returns the URI of a class or property, which files write with http and https alike."""
    return uri.replace("https://", "http://", 1) if uri.startswith("https://") else uri


def local_name(uri: str) -> str:
    """Returns the last part of a URI."""
    return re.split("[/#:]", uri.rstrip("/#:"))[-1]


def shorten(uri: str) -> str:
    """Writes a URI with a known prefix, if there is one."""
    matches = ((prefix, start) for prefix, start in PREFIXES.items() if uri.startswith(start))
    return next((f"{prefix}:{uri.removeprefix(start)}" for prefix, start in matches), uri)


def expand(name: str) -> str:
    """Returns the URI of a name with a prefix."""
    prefix, _, rest = name.partition(":")
    return PREFIXES[prefix] + rest


def link_role(predicate: str) -> tuple[str, bool] | None:
    """Returns the role of a link, and whether it is inverse; None for other properties.

    Example:
        >>> link_role("http://purl.org/iso25964/skos-thes#narrowerPartitive")
        ('broader', True)
        >>> link_role("http://www.w3.org/2004/02/skos/core#broaderTransitive")
        ('ancestors', False)
    """
    name = local_name(predicate)
    if match := _BROADER.fullmatch(name):
        return "ancestors" if match[2] else "broader", match[1].lower() == "narrower"
    return _LINKS.get(name)
