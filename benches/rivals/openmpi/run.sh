#!/bin/sh
# Runs Open MPI's part in `barewire bench --rivals` (rival.c). `make rivals` installs it as
# `openmpi`:
#
#   openmpi both rtt|stream message|message-cma SIZE TURNS NAME CLIENT SERVER
#   openmpi --version
#
# `message` is copied into shared memory and out of it; with `message-cma` the kernel may copy
# long messages once, from one process to the other. Both ends are told to poll: by itself
# Open MPI yields where it thinks that there are fewer processors than processes.
rival=$(dirname "$0")/openmpi-rival
if [ "$1" = --version ]; then
    exec "$rival" --version
fi
test=$2 way=$3 size=$4 turns=$5 client=$7 server=$8
case $way in
message) copies=none ;;
message-cma) copies=cma ;;
*) echo "openmpi: $way: neither message nor message-cma" >&2 && exit 2 ;;
esac
# As root it wants to be asked twice; in a benchmark of one host nothing speaks against it.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# It looks for a way to other hosts, and complains if there is no ssh.
export OMPI_MCA_plm_rsh_agent=false PRTE_MCA_plm_ssh_agent=false
exec mpirun --host localhost:2 -n 2 --bind-to none \
    --mca pml ob1 --mca btl self,vader --mca btl_vader_single_copy_mechanism "$copies" \
    --mca mpi_yield_when_idle 0 \
    "$rival" "$test" "$size" "$turns" "$client" "$server"
