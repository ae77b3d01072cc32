"""Names of C++ functions as this front end writes them: qualified, without parameters and template arguments.

The same function has one name here, however often it is instantiated, and whether it comes from source code, from
debug information or from a demangled symbol:

>>> plain_name("void solve<double>(std::vector<double>&, int)")
'solve'
>>> plain_name("Mesh<2>::operator()(int) const")
'Mesh::operator()'
>>> plain_name("main::{lambda(int)#1}::operator()(int) const")
'main::<lambda>'
"""

from __future__ import annotations

import re

LAMBDA = "<lambda>"
ANONYMOUS = "(anonymous namespace)"
_OPERATOR = re.compile(r"operator\s*(\(\)|\[\]|<=>|<<=|>>=|<<|>>|->\*|->|<=|>=|[-+*/%^&|~!=<>,]=?|&&|\|\||\+\+|--)")
_LAMBDA = re.compile(r"(\{lambda\([^{}]*\)(#\d+)?\}|<lambda(\([^<>]*\))?>)(::operator\(\))?")
_OUTLINED = re.compile(r"(\._omp_fn|\.isra|\.part|\.constprop|\.cold|\.lto_priv|\.llvm)(\.\d+)*|\s*\[clone[^]]*\]")


def plain_name(name: str) -> str:
    """The name without return type, parameters, template arguments, and what compilers put behind symbols."""
    name = _OUTLINED.sub("", name)
    name = _LAMBDA.sub("\x01", name)
    name = name.replace("(anonymous namespace)", "\x02").replace("{anonymous}", "\x02").replace("<unnamed>", "\x02")
    operators: list[str] = []

    def keep(match: re.Match[str]) -> str:
        operators.append(match.group(1))
        return f"operator\x03{len(operators) - 1}\x04"

    name = _OPERATOR.sub(keep, name)
    kept: list[str] = []
    depth = 0
    for character in name:
        if character in "<(":
            if character == "(" and depth == 0:
                break  # parameters: the name ends here
            depth += 1
        elif character in ">)":
            depth -= 1
        elif depth == 0:
            kept.append(character)
    name = "".join(kept).strip()
    if "operator " not in name:  # a conversion's name has spaces of its own
        name = name.rpartition(" ")[2]
    else:
        before, _, conversion = name.rpartition("operator ")
        name = before.rpartition(" ")[2] + "operator " + conversion
    name = re.sub("\x03(\\d+)\x04", lambda match: operators[int(match.group(1))], name)
    return name.replace("\x01", LAMBDA).replace("\x02", ANONYMOUS)
