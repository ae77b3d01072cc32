! A module with a procedure that calls another one, and MPI.
module field
contains
  subroutine relax(u, n)
    integer :: n, i
    real(8) :: u(n)
    do i = 2, n - 1
      u(i) = 0.5d0 * u(i) + 0.25d0 * (u(i - 1) + u(i + 1))
    end do
  end subroutine
  subroutine step(u, n, total, comm)
    integer :: n, comm, error
    real(8) :: u(n), total
    call relax(u, n)
    call mpi_allreduce(u, total, 1, 0, 0, comm, error)
  end subroutine
end module
