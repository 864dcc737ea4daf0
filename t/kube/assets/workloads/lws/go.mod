module sigs.k8s.io/lws

go 1.24.0
