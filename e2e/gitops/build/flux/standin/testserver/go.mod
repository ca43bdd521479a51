module github.com/fluxcd/pkg/testserver

go 1.27.0
