"""Says how evenly the batches of an update are shared by the processes of a run.

Whole batches are shared, never their sentences: dropout, sampled vocabularies and deleted spans are
drawn for a batch, so that the same batches give the same update wherever they are computed.
"""


def advise_shares(batches: int, batch_tokens: int, processes: int) -> str | None:
    """Says how much of their time processes wait if they share so many batches; None if none."""
    rounds = -(-batches // processes)
    waiting = 1 - batches / (rounds * processes)
    if not waiting:
        return None
    line = (
        f"train.accumulate = {batches} over {processes} processes: they wait for each other in "
        f"{waiting:.0%} of their time"
    )
    if batches >= processes:
        return f"{line}; {(rounds - 1) * processes} or {rounds * processes} batches would not"
    smaller = max(1, batch_tokens * batches // processes)
    return (
        f"{line}; as large an update without waiting: train.accumulate={processes} and "
        f"train.batch_tokens={smaller}"
    )
