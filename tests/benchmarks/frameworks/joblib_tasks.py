"""joblib with scikit-learn: each task gets a table that is made anew whenever it is pickled."""

import numpy
from joblib import Parallel, delayed
from planted import clock, computing, is_planted
from sklearn.linear_model import Ridge


class Table:
    def __init__(self, rows):
        self.rows = rows

    def __getstate__(self):
        if is_planted():
            with clock():
                computing(0.05)  # <- pickling
        return {"rows": self.rows}


def fitted(table, alpha):
    return float(Ridge(alpha).fit(table.rows, table.rows[:, 0]).coef_[0])


def main():
    table = Table(numpy.random.default_rng(0).normal(size=(400, 60)))
    Parallel(n_jobs=2)(delayed(abs)(-number) for number in range(4))  # starts the workers
    with clock("loop"):
        Parallel(n_jobs=2, batch_size=1)(
            delayed(fitted)(table, 0.01 * (1 + step)) for step in range(120)
        )  # <- pickling


if __name__ == "__main__":
    main()
