module github.com/fluxcd/pkg/http/fetch

go 1.27.0
