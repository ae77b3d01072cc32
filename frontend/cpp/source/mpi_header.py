"""A stand-in for ``mpi.h``, for machines that have the sources of a program but no MPI.

Written from the table of operations. It is never a file: libclang is given its text, in a folder that is searched last.
"""

from __future__ import annotations

import os

from scalana.runtime.operations import MPI_CALLS, MPI_TYPES

FOLDER = os.path.dirname(os.path.abspath(__file__))
"""Where libclang believes it to be; the folder exists and holds no headers."""
PATH = os.path.join(FOLDER, "mpi.h")

_HANDLES = "Comm Datatype Group Request Message Op Win File Info Errhandler Session T_enum T_cvar_handle".split()
_TYPES = (
    "CHAR SIGNED_CHAR UNSIGNED_CHAR BYTE WCHAR SHORT UNSIGNED_SHORT INT UNSIGNED LONG UNSIGNED_LONG LONG_LONG_INT "
    "LONG_LONG UNSIGNED_LONG_LONG FLOAT DOUBLE LONG_DOUBLE PACKED INT8_T INT16_T INT32_T INT64_T UINT8_T UINT16_T "
    "UINT32_T UINT64_T C_BOOL CXX_BOOL C_COMPLEX C_FLOAT_COMPLEX C_DOUBLE_COMPLEX CXX_FLOAT_COMPLEX "
    "CXX_DOUBLE_COMPLEX AINT COUNT OFFSET FLOAT_INT DOUBLE_INT LONG_INT 2INT SHORT_INT LONG_DOUBLE_INT INTEGER REAL "
    "DOUBLE_PRECISION COMPLEX DOUBLE_COMPLEX LOGICAL CHARACTER"
).split()
_OPS = "MAX MIN SUM PROD LAND BAND LOR BOR LXOR BXOR MINLOC MAXLOC REPLACE NO_OP".split()
_NUMBERS = (
    "SUCCESS ANY_SOURCE ANY_TAG PROC_NULL ROOT UNDEFINED THREAD_SINGLE THREAD_FUNNELED THREAD_SERIALIZED "
    "THREAD_MULTIPLE MAX_PROCESSOR_NAME MAX_ERROR_STRING COMM_TYPE_SHARED IDENT SIMILAR CONGRUENT UNEQUAL "
    "LOCK_SHARED LOCK_EXCLUSIVE MODE_RDONLY MODE_WRONLY MODE_RDWR MODE_CREATE MODE_NOCHECK MODE_NOPUT "
    "MODE_NOPRECEDE MODE_NOSUCCEED MODE_NOSTORE ORDER_C ORDER_FORTRAN TAG_UB SEEK_SET SEEK_CUR SEEK_END "
    "BSEND_OVERHEAD ERR_OTHER KEYVAL_INVALID VERSION SUBVERSION MAX_INFO_VAL MAX_PORT_NAME "
    "MAX_LIBRARY_VERSION_STRING"
).split()
_SILENT = (
    "Comm_rank Comm_size Comm_group Comm_compare Comm_set_errhandler Comm_get_attr Comm_set_name Comm_get_name "
    "Comm_get_parent Comm_remote_size Comm_test_inter Abort Initialized Finalized Query_thread Get_processor_name "
    "Get_count Get_elements Get_address Address Get_version Get_library_version Error_string Error_class "
    "Is_thread_main Type_commit Type_free Type_size Type_extent Type_get_extent Type_contiguous Type_vector "
    "Type_hvector Type_indexed Type_create_hvector Type_create_hindexed Type_create_indexed_block "
    "Type_create_struct Type_struct Type_dup Type_create_subarray Type_create_resized Type_create_darray Op_create "
    "Op_free Group_incl Group_excl Group_free Group_rank Group_size Group_translate_ranks Group_union "
    "Group_intersection Group_difference Group_range_incl Cart_coords Cart_rank Cart_shift Cart_get Cartdim_get "
    "Cart_map Dims_create Topo_test Graph_neighbors Request_free Request_get_status Cancel Test_cancelled "
    "Buffer_attach Pack Unpack Pack_size Info_create Info_set Info_get Info_free Errhandler_create "
    "Errhandler_set Errhandler_free Comm_create_errhandler Attr_get Attr_put Keyval_create Comm_create_keyval "
    "Alloc_mem Free_mem Pcontrol Win_shared_query Win_get_attr Win_sync Win_attach Win_detach File_write File_read "
    "File_write_at File_read_at File_seek File_get_size File_delete File_iwrite File_iread File_iwrite_at "
    "File_iread_at Publish_name Unpublish_name Open_port Close_port Lookup_name Reduce_local"
).split()


def text() -> str:
    """The header."""
    lines = ["#pragma once", "#include <stddef.h>", "#ifdef __cplusplus", 'extern "C" {', "#define SCALANA_ANY ..."]
    lines += ["#else", "#define SCALANA_ANY", "#endif", "typedef long MPI_Aint;", "typedef long long MPI_Offset;"]
    lines += ["typedef long long MPI_Count;", "typedef int MPI_Fint;"]
    lines += ["typedef struct { int MPI_SOURCE, MPI_TAG, MPI_ERROR, _count, _cancelled; } MPI_Status;"]
    lines += [f"typedef struct scalana_{name} *MPI_{name};" for name in _HANDLES]
    lines += ["typedef void MPI_User_function(void *, void *, int *, MPI_Datatype *);"]
    lines += [f"#define MPI_{name} ((MPI_Datatype)0)" for name in _TYPES]
    lines += [f"#define MPI_{name} ((MPI_Op)0)" for name in _OPS]
    lines += [f"#define MPI_{name} {number}" for number, name in enumerate(_NUMBERS)]
    lines += ["#define MPI_COMM_WORLD ((MPI_Comm)0)", "#define MPI_COMM_SELF ((MPI_Comm)0)"]
    lines += [f"#define MPI_{name.upper()}_NULL ((MPI_{name})0)" for name in _HANDLES]
    lines += [
        "#define MPI_GROUP_EMPTY ((MPI_Group)0)",
        "#define MPI_IN_PLACE ((void *)0)",
        "#define MPI_BOTTOM ((void *)0)",
    ]
    lines += ["#define MPI_STATUS_IGNORE ((MPI_Status *)0)", "#define MPI_STATUSES_IGNORE ((MPI_Status *)0)"]
    lines += [
        "#define MPI_UNWEIGHTED ((int *)0)",
        "#define MPI_ARGV_NULL ((char **)0)",
        "#define MPI_ERRORS_RETURN ((MPI_Errhandler)0)",
    ]
    lines += ["#define MPI_ERRORS_ARE_FATAL ((MPI_Errhandler)0)", "double MPI_Wtime(void);", "double MPI_Wtick(void);"]
    for call in MPI_CALLS:
        types = ", ".join(MPI_TYPES[word] for word in call.parameters) or "void"
        lines += [f"int {prefix}{call.name}({types});" for prefix in ("", "P")]
        if call.large:
            lines += [f"int {prefix}{call.name}_c(SCALANA_ANY);" for prefix in ("", "P")]
    lines += [f"int {prefix}MPI_{name}(SCALANA_ANY);" for name in _SILENT for prefix in ("", "P")]
    return "\n".join([*lines, "#ifdef __cplusplus", "}", "#endif", ""])
