module github.com/open-policy-agent/cert-controller

go 1.24.0
