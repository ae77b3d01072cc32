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
    ),
)  # fmt: skip
"""The first row that has a name gives its meaning."""

_BY_NAME = {name: row.doing for row in reversed(TABLE) for name in row.names}

TEXT = {**{row.doing: row.text for row in TABLE}, Doing.OTHER: "other"}


def doing_of(name: str) -> Doing:
    """What a phase is.

    >>> doing_of("step_model_update").name, doing_of("trainer._calculate_rewards").name, doing_of("my own").name
    ('WEIGHT_SYNC', 'VERIFIER', 'OTHER')
    """
    return _BY_NAME.get(re.sub("[^a-z0-9]", "", name.lower().rpartition(".")[2]), Doing.OTHER)
