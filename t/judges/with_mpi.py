"""What a user of mpi4py does: every rank says who it is, and all add up."""
from mpi4py import MPI

c = MPI.COMM_WORLD
print(c.rank, c.size, MPI.Get_processor_name(), c.allreduce(c.rank + 1), flush=True)
