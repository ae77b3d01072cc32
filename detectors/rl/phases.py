"""What phases of a loop are, by their names: one row a kind, of this tool's words and those of many trainers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum


class Doing(IntEnum):
    """What a process does at a time."""

    GENERATION = 0
    VERIFIER = 1
    LOG_PROB = 2
    TRAINING = 3
    WEIGHT_SYNC = 4
    DATA = 5
    STARVATION = 6
    """It waits for a queue to fill."""
    EVALUATION = 7
    OTHER = 8
    """A phase of another name, or none."""


@dataclass(frozen=True, slots=True)
class PhaseNames:
    """A row of the table."""

    doing: Doing
    text: str
    """In reports."""
    names: tuple[str, ...]
    """Of it, without what is no letter or digit."""
    words: tuple[str, ...] = ()
    """In names of functions, methods and classes that do it, where no phase is marked."""


TABLE = (
    PhaseNames(
        Doing.GENERATION,
        "generation",
        (
            "rollout", "rollouts", "generate", "generation", "gen", "generatesequences", "stepgenerate", "samples",
            "transformersgenerate", "vllmgenerate", "generatesingleturn", "generatebatch", "exposedgeneration",
            "makesamples",
            "generatesamples", "rolloutgenerate", "generaterollouts", "generateoneepoch", "interact",
            "runinteractonce", "runrollouts", "generateasync", "sample",
        ),
        (
            "rollout", "rollouts", "episode", "episodes", "trajectory", "trajectories", "experience", "experiences",
            "playout", "playouts", "generate", "generates", "generation", "generator", "explore", "explorer",
        ),
    ),
    PhaseNames(
        Doing.VERIFIER,
        "verifier",
        (
            "reward", "rewards", "verify", "verifier", "score", "scores", "computescore", "calculaterewards",
            "rewardcalculation", "judge", "toolcalls",
            "computerewards", "computeimagerewards", "computebootstraprewards", "getrewardmodeloutput",
            "rewardtimer", "rewardpostprocess",
        ),
        (
            "reward", "rewards", "rewarder", "verify", "verifies", "verifier", "judge", "judges", "score", "scores",
            "scorer", "grade", "grader",
        ),
    ),
    PhaseNames(
        Doing.LOG_PROB,
        "log-prob",
        (
            "logprob", "logprobs", "oldlogprob", "oldlogprobs", "ref", "reflogprob", "reflogprobs", "reference",
            "reflogp", "recomputelogp", "calreflogprobs", "caloldlogprobs", "caloldlogprobsvalues", "values",
            "inference", "fwdlogprobsvaluesreward", "getpertokenlogps", "getpertokenlogpsandentropies",
            "policyandreferencelogprobs",
            "criticvalues", "teacherlogp", "teacherlogprobs", "valueinference",
            "teacherlogprobinference", "teacherforward", "callogprobs", "makeexperience", "makeexperiencebatch",
            "forwardactor", "forwardcritic", "evalbatch", "computelogprob", "computereflogprob",
        ),
        (
            "logprob", "logprobs", "logp", "logps", "reference",
        ),
    ),
    PhaseNames(
        Doing.TRAINING,
        "training",
        (
            "update", "train", "training", "trainstep", "trainingstep", "actortrain", "updateactor", "actorupdate",
            "updatecritic", "criticupdate", "criticstrain", "policytraining", "policytrain", "critictrain",
            "runtraining", "traincriticandpolicy", "ppotrain", "computeloss", "trainbatch",
            "critictrainstep", "valuetraining", "steptrain", "traintimer", "actortraining", "updateoneepoch",
        ),
        (
            "train", "trains", "trainer", "training", "update", "updates", "learn", "learns", "learner", "optimize",
            "optimise", "backward",
        ),
    ),
    PhaseNames(
        Doing.WEIGHT_SYNC,
        "weight sync",
        (
            "weightsync", "weights", "syncweights", "updateweights", "broadcast", "modelupdate", "stepmodelupdate",
            "refit", "syncrolloutweights", "broadcasttovllm", "pushweights", "syncweightstoinferenceengines",
            "prepareforgenerationtransferandupdateweights",
            "prepareforgeneration", "prepareforgenerationtotal", "recomputekvscales", "offloadbeforerefit",
            "policyoffloadafterrefit", "rolloutpause", "rolloutpausegeneration", "rolloutresume",
            "rolloutcontinuegeneration", "stepstopserver", "actorsyncmodeltorollout", "updaterolloutweights",
            "rolloutrequestweightsync", "rolloutpollweightsync", "refmodelupdate", "setstate", "syncenvrunnerstates",
        ),
        (
            "weight", "weights", "param", "params", "parameter", "parameters", "sync", "synchronize", "synchronise",
            "broadcast", "refit",
        ),
    ),
    PhaseNames(
        Doing.DATA,
        "data and driver",
        (
            "data", "datatransfer", "datapreprocess", "dataprocessing", "prepareinputs", "adv", "advantage",
            "advantages", "advantagecalculation", "computeadvantage", "dispatch", "collect", "converttotraininginput",
            "computeadvantagesandreturns", "postprocessgeneratoroutput", "applyrewardklpenalty",
            "logprobinferenceprep", "trainingprep", "valuetrainingprep", "dynamicsampling", "overlongfilter",
            "masksamplefilter", "preparedata", "caladvandreturns", "actorcomputeadv", "constructrolloutbatch",
            "preparemicrobatches", "getsamplelevelmask", "gettokenreward", "clearbatches", "getbatch",
            "makebatchifnecessary",
        ),
        (
            "advantage", "advantages", "gae",
        ),
    ),
    PhaseNames(
        Doing.STARVATION,
        "waiting for trajectories",
        (
            "starvation", "bufferstarvation", "idlebufferstarvation", "trainwait", "waitforgenerationbuffer",
            "waitforrollout", "waitfortrajectories", "waitfornextpoll",
            "actorrecvtraj", "waitforrolloutstoreready",
        ),
    ),
    PhaseNames(
        Doing.EVALUATION,
        "evaluation",
        (
            "evaluate", "evaluation", "testing", "validate", "validation",
        ),
        (
            "evaluate", "evaluation", "eval", "validate", "validation",
        ),
    ),
)  # fmt: skip
"""The first row that has a name gives its meaning."""

_OBJECTS = (Doing.WEIGHT_SYNC, Doing.VERIFIER, Doing.LOG_PROB, Doing.EVALUATION, Doing.DATA)
"""Whatever is done to these is theirs (``update_weights``, ``generate_rewards``): of others the first word decides."""
_OF_LEARNING_ALONE = ("rollout", "episode", "trajector", "playout")
"""So begin words of generation that nothing but reinforcement learning has."""

_BY_NAME = {name: row.doing for row in reversed(TABLE) for name in row.names}

_BY_WORD = {word: row.doing for row in reversed(TABLE) for word in row.words}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

TEXT = {**{row.doing: row.text for row in TABLE}, Doing.OTHER: "other"}


def doing_of(name: str) -> Doing:
    """What a phase is.

    >>> doing_of("step_model_update").name, doing_of("trainer._calculate_rewards").name, doing_of("my own").name
    ('WEIGHT_SYNC', 'VERIFIER', 'OTHER')
    """
    return _BY_NAME.get(re.sub("[^a-z0-9]", "", name.lower().rpartition(".")[2]), Doing.OTHER)


def doing_of_function(name: str) -> Doing:
    """What a function does, by its qualified name: by the words of its own name, or else of its class.

    >>> doing_of_function("Trainer.update_weights").name, doing_of_function("RolloutWorker.run").name
    ('WEIGHT_SYNC', 'GENERATION')
    >>> doing_of_function("train_on_rollouts").name, doing_of_function("Trainer.__init__").name
    ('TRAINING', 'OTHER')
    """
    *around, own = [part for part in name.split(".") if part != "<locals>"] or [""]
    if own.startswith("__"):
        return Doing.OTHER
    found = _by_words(own)
    return _by_words(around[-1]) if found is Doing.OTHER and around and around[-1][:1].isupper() else found


def _by_words(name: str) -> Doing:
    """By the words of a name."""
    known = [_BY_WORD[word] for word in _words(name) if word in _BY_WORD]
    return next((doing for doing in known if doing in _OBJECTS), known[0] if known else Doing.OTHER)


def is_of_learning(name: str) -> bool:
    """Whether nothing but reinforcement learning generates by a function of such a name.

    >>> is_of_learning("collect_rollouts"), is_of_learning("generate_batch")
    (True, False)
    """
    alone = any(word.startswith(_OF_LEARNING_ALONE) for word in _words(name))
    return alone and doing_of_function(name) is Doing.GENERATION


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]
