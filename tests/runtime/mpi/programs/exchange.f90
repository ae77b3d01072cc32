program exchange
  use mpi
  implicit none
  integer :: error, rank, ranks, left, right, step, requests(2), status(MPI_STATUS_SIZE)
  double precision :: mine, theirs
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  left = modulo(rank - 1, ranks)
  right = modulo(rank + 1, ranks)
  mine = rank
  do step = 1, 10
    call MPI_Irecv(theirs, 1, MPI_DOUBLE_PRECISION, left, 3, MPI_COMM_WORLD, requests(1), error)
    call MPI_Isend(mine, 1, MPI_DOUBLE_PRECISION, right, 3, MPI_COMM_WORLD, requests(2), error)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
    call MPI_Allreduce(MPI_IN_PLACE, mine, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error) ! here
    call MPI_Sendrecv(mine, 1, MPI_DOUBLE_PRECISION, right, 4, theirs, 1, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 4, &
                      MPI_COMM_WORLD, status, error)
  end do
  print *, theirs
  call MPI_Finalize(error)
end program exchange
