module github.com/fluxcd/pkg/spiffe

go 1.27.0
