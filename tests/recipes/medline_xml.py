"""Sets of citations in the XML of MEDLINE."""

CITATION = """
<PubmedArticle>
  <MedlineCitation Status="MEDLINE" Owner="NLM">
    <PMID Version="{version}">{pmid}</PMID>
    <Article PubModel="Print">
      <Journal><JournalIssue CitedMedium="Print"><PubDate>{date}</PubDate></JournalIssue>
        <Title>Journal of mice</Title></Journal>
      <ArticleTitle>{title}</ArticleTitle>
      {abstract}
      <Language>eng</Language>
    </Article>
    {headings}
    {after}
  </MedlineCitation>
</PubmedArticle>
"""
DOCTYPE = '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD" "http://nlm/a.dtd">\n'
ABSTRACT = "<Abstract><AbstractText>Mice were seen.</AbstractText></Abstract>"
HEADINGS = """<MeshHeadingList>
  <MeshHeading><DescriptorName UI="D000818" MajorTopicYN="N">Animals</DescriptorName></MeshHeading>
  <MeshHeading><DescriptorName UI="D051379" MajorTopicYN="Y">Mice</DescriptorName>
    <QualifierName UI="Q000378" MajorTopicYN="N">metabolism</QualifierName></MeshHeading>
</MeshHeadingList>"""


def citation(pmid="5", version=1, **changes):
    parts = {"pmid": pmid, "version": version, "title": "On mice.", "abstract": ABSTRACT, "headings": HEADINGS}
    return CITATION.format(**parts | {"date": "<Year>1976</Year><Month>Dec</Month>", "after": ""} | changes)


def deletion(*pmids):
    notices = [f'<PMID Version="1">{pmid}</PMID>' for pmid in pmids]
    return f"<DeleteCitation>{''.join(notices)}</DeleteCitation>"


def document(*parts, encoding="utf-8", doctype=DOCTYPE):
    head = f'<?xml version="1.0" encoding="{encoding}"?>\n{doctype}'
    return f"{head}<PubmedArticleSet>{''.join(parts)}</PubmedArticleSet>".encode(encoding)
