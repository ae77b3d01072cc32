"""The names of MPI that the preloaded library has, as assembly: each is a jump through a table of addresses."""

from __future__ import annotations

from scalana.runtime.mpi.prototypes import prototypes
from scalana.runtime.operations import MPI_CALLS

MORE = ("MPI_Request_free", "MPI_Cancel", "MPI_Type_free", "MPI_Abort")
"""Calls that do not communicate, but that the recorder must see."""


def names() -> list[str]:
    """All names of C functions that are wrapped where a library has them."""
    found: dict[str, None] = {}
    for call in MPI_CALLS:
        found[call.name] = None
        if call.large:
            found[f"{call.name}_c"] = None
    return [*found, *MORE]


def slots(header: str) -> str:
    """Assembly for x86-64: ``MPI_Send: jmp *agent_slots[n]``, and the way to fill the table on first use.

    Only of the names that the (preprocessed) header of an MPI declares.
    """
    declared = prototypes(header)
    all_names = [name for name in names() if name in declared]
    lines = ["    .text", *_RESOLVER.strip("\n").splitlines()]
    for number, name in enumerate(all_names):
        lines += [
            f"    .globl {name}",
            f"    .type {name}, @function",
            f"{name}:",
            f"    jmp *agent_slots+{8 * number}(%rip)",
            f"    .size {name}, .-{name}",
            f".Lfirst{number}:",
            f"    pushq ${number}",
            "    jmp .Lresolve",
        ]
    lines += ["    .data", "    .globl agent_slots", "    .hidden agent_slots", "    .balign 8", "agent_slots:"]
    lines += [f"    .quad .Lfirst{number}" for number in range(len(all_names))]
    lines += ['    .section .data.rel.ro, "aw"', "    .globl agent_names", "    .hidden agent_names", "    .balign 8"]
    lines += ["agent_names:", *(f"    .quad .Lname{number}" for number in range(len(all_names)))]
    lines += ["    .section .rodata", "    .globl agent_slot_count", "    .hidden agent_slot_count", "    .balign 4"]
    lines += ["agent_slot_count:", f"    .long {len(all_names)}"]
    lines += [f'.Lname{number}: .asciz "{name}"' for number, name in enumerate(all_names)]
    return "\n".join([*lines, '    .section .note.GNU-stack,"",@progbits', ""])


_RESOLVER = """
.Lresolve:                   # the number of the slot is on the stack, the caller's return address above it
    .cfi_startproc
    .cfi_def_cfa_offset 16
    pushq %rax
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9
    .cfi_def_cfa_offset 72
    subq $8, %rsp            # keeps the stack aligned for the call
    .cfi_def_cfa_offset 80
    movl 64(%rsp), %edi
    call agent_resolve
    movq %rax, %r11
    addq $8, %rsp
    popq %r9
    popq %r8
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    popq %rax
    addq $8, %rsp            # the number
    .cfi_def_cfa_offset 8
    jmp *%r11
    .cfi_endproc
"""
