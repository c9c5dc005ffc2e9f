"""Summaries: ROUGE with and without redundant capsules, beside the systems that the paper names."""

from dataclasses import dataclass

from untold.evaluation.metrics import corpus_scores
from untold.experiments.evidence_parts import Evidence, EvidenceTable, over_seeds
from untold.experiments.items.evidence_item import SystemsItem
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
            jobs = workshop.seeds_of(system)
            found = [
                corpus_scores(workshop.translations(job, test), references, ["rouge"])
                for job in jobs
            ]
            names, signature = [score.name for score in found[0]], found[0][0].signature
            figures[system.title] = [{s.name: s.value for s in scores} for scores in found]
            cells = [over_seeds([s.value for s in each]) for each in zip(*found, strict=True)]
            rows.append([system.title, *cells, str(len(jobs))])
        table = EvidenceTable(self.title, ["system", *names, "seeds"], rows)
        notes = [
            f"{signature}; {len(references)} texts of {test.name} ({corpus.name})",
            "RNMT, continued, is the paper's row RNN+context: a recurrent model that attends",
        ]
        return Evidence(self.name, self.title, self.claim, [table], (), notes, figures)
