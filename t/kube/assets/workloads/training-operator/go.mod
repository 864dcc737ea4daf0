module github.com/kubeflow/training-operator

go 1.24.0
