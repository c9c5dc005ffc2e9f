"""Summaries: ROUGE with and without redundant capsules, beside the systems that the paper names."""

from dataclasses import dataclass

from untold.evaluation.metrics import corpus_scores
from untold.experiments.evidence_parts import Evidence, EvidenceTable, number
from untold.experiments.items.evidence_item import SystemsItem
from untold.experiments.items.score_items import seeds_of
from untold.experiments.workshop import Workshop

__all__ = ["SummaryItem"]


@dataclass(frozen=True)
class SummaryItem(SystemsItem):
    """Scores systems by ROUGE; Chinese text is compared character by character."""

    def make(self, workshop: Workshop) -> Evidence:
        """Trains, summarizes and scores."""
        corpus = workshop.plan.corpus
        test = corpus.known.tests[0]
        _, references = corpus.read(test)
        rows, figures = [], {}
        for system in self.systems:
            found = workshop.translations(seeds_of(workshop, system)[0], test)
            scores = corpus_scores(found, references, ["rouge"])
            figures[system.title] = {score.name: score.value for score in scores}
            names = [score.name for score in scores]
            signature = scores[0].signature
            rows.append([system.title, *(number(score.value) for score in scores)])
        table = EvidenceTable(self.title, ["system", *names], rows)
        notes = [f"{signature}; {len(references)} texts of {test.name} ({corpus.name}), first seed"]
        return Evidence(self.name, self.title, self.claim, [table], (), notes, figures)
