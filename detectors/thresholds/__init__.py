"""Numbers that decide what is reported: one row a question, with the reason for its value and who asks it.

A module here is a type of question, and so a unit. The first line of a row is the question, "Why" the reason for its
value ("a choice" is one without a source); then the modules that ask, and of what where there are several. A new
question is often one that is there.

numba keeps what it compiles, and does not see that a value has changed: kernels take these values as arguments.
"""
