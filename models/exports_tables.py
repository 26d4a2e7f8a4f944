"""Estimators of scikit-learn for tables, fitted to drawn data.

TABLES maps a name to an exports.Network whose `make` gives the estimator.
"""

import numpy as np

from exports import Network, floats

SIZES = [{"N": 3}, {"N": 1}, {"N": 8}]


def fitted(make, labels=True):
    """A function that fits what make() gives to 120 rows of 6 columns; `labels` are classes 0 to 2, else numbers."""
    def fit():
        rng = np.random.Generator(np.random.PCG64(3))
        x = rng.standard_normal((120, 6)).astype(np.float32)
        score = x[:, 0] * 2 - x[:, 1] + x[:, 2] * x[:, 3]
        y = np.digitize(score, [-1, 1]) if labels else score.astype(np.float32)
        return make().fit(x, y)
    return Network(fit, {"X": floats("N", 6)}, SIZES, ("skl2onnx",), source="scikit-learn")


def logistic():
    from sklearn.linear_model import LogisticRegression
    return LogisticRegression()


def perceptron():
    from sklearn.neural_network import MLPClassifier
    return MLPClassifier(hidden_layer_sizes=(16, 8), max_iter=50, random_state=0)


def perceptron_of_numbers():
    from sklearn.neural_network import MLPRegressor
    return MLPRegressor(hidden_layer_sizes=(16,), activation="tanh", max_iter=50, random_state=0)


def forest():
    from sklearn.ensemble import RandomForestClassifier
    return RandomForestClassifier(8, max_depth=5, random_state=0)


def boosted():
    from sklearn.ensemble import GradientBoostingRegressor
    return GradientBoostingRegressor(n_estimators=10, random_state=0)


def ridge():
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    return make_pipeline(StandardScaler(), Ridge())


def components():
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler
    return make_pipeline(MinMaxScaler(), PCA(3), LogisticRegression())


def clusters():
    from sklearn.cluster import KMeans
    return KMeans(4, n_init=2, random_state=0)


def process():
    from sklearn.gaussian_process import GaussianProcessRegressor
    return GaussianProcessRegressor(alpha=0.1)


def support_vectors():
    from sklearn.svm import SVC
    return SVC(probability=True, random_state=0)


def neighbours():
    from sklearn.neighbors import KNeighborsClassifier
    return KNeighborsClassifier(3)


def calibrated():
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.svm import LinearSVC
    return CalibratedClassifierCV(LinearSVC(random_state=0), cv=3)


TABLES = {
    "logistic": fitted(logistic), "perceptron": fitted(perceptron), "forest": fitted(forest), "components": fitted(components),
    "clusters": fitted(clusters), "perceptron_of_numbers": fitted(perceptron_of_numbers, False), "boosted": fitted(boosted, False),
    "ridge": fitted(ridge, False), "process": fitted(process, False), "support_vectors": fitted(support_vectors),
    "neighbours": fitted(neighbours), "calibrated": fitted(calibrated),
}
