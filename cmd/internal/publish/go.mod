// What pushes a release to a registry. A module of its own, so that nobody who builds Roster takes what it needs for that.
module github.com/roster-mesh/roster/cmd/internal/publish

go 1.26.0

require (
	github.com/google/go-containerregistry v0.22.1
	github.com/roster-mesh/roster v0.0.0
	sigs.k8s.io/yaml v1.6.0
)

require (
	github.com/docker/cli v29.7.2+incompatible // indirect
	github.com/docker/docker-credential-helpers v0.9.3 // indirect
	github.com/klauspost/compress v1.20.1 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	github.com/sirupsen/logrus v1.10.2 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	gotest.tools/v3 v3.5.2 // indirect
)

replace github.com/roster-mesh/roster => ../../..
