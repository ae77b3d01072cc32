"""Hugging Face datasets: map with two processes, of which the second has rows that take longer."""

from datasets import Dataset, disable_caching, disable_progress_bars
from planted import clock, computing, is_planted


def cleaned(row):
    computing(0.002)
    if is_planted() and row["length"] > 1:
        with clock():
            computing(0.006)  # <- rows
    return {"length": row["length"] + 1}


def main():
    disable_caching()
    disable_progress_bars()
    rows = Dataset.from_dict({"length": [1 + (row >= 500) for row in range(1000)]})
    with clock("loop"):
        rows.map(cleaned, num_proc=2)


if __name__ == "__main__":
    main()
