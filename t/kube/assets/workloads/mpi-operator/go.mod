module github.com/kubeflow/mpi-operator

go 1.24.0
