module sigs.k8s.io/jobset

go 1.24.0
