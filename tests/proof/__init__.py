"""Every figure that the documents claim, the command that measures it, and what it measured last.

    make proof [NAME=accuracy-*,startup]     measures rows, keeps what they gave, and writes docs/proof.md
    make gpu-proof                           the rows that need a GPU

``table`` has the rows, ``rows`` says what a row is, ``running`` measures, ``results`` keeps and ``document`` writes.
"""
