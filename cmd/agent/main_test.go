// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestBadCommandLineIsOneLineThatNamesTheFlag(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := map[string]struct {
		args []string
		env  map[string]string
		code int
		want string
	}{
		"unknown flag":         {args: []string{"run", "--no-such"}, code: exitUsage, want: "no-such"},
		"unknown command":      {args: []string{"start"}, code: exitUsage, want: `"start"`},
		"argument to version":  {args: []string{"version", "now"}, code: exitUsage, want: `"now"`},
		"crds, no command":     {args: []string{"crds"}, code: exitUsage, want: "apply"},
		"crds, argument":       {args: []string{"crds", "apply", "x"}, code: exitUsage, want: `"x"`},
		"crds, kubeconfig":     {args: []string{"crds", "apply", "--kubeconfig", filepath.Join(dir, "none")}, code: exitFailed, want: filepath.Join(dir, "none")},
		"probe, argument":      {args: []string{"probe", "x"}, code: exitUsage, want: `"x"`},
		"probe, nobody there":  {args: []string{"probe", "--http", "http://127.0.0.1:1"}, code: exitFailed, want: "127.0.0.1:1"},
		"argument":             {args: []string{"run", "cluster-1"}, code: exitUsage, want: `"cluster-1"`},
		"log level":            {args: []string{"run", "--log-level", "loud"}, code: exitUsage, want: "--log-level"},
		"log format":           {args: []string{"run", "--log-format", "xml"}, code: exitUsage, want: "--log-format"},
		"namespace":            {args: []string{"run", "--namespace", "A_b"}, code: exitUsage, want: "--namespace"},
		"long namespace":       {args: []string{"run", "--namespace", strings.Repeat("a", 60)}, code: exitUsage, want: "-readers"},
		"cluster name":         {args: []string{"run", "--cluster-name", "a/b"}, code: exitUsage, want: "--cluster-name"},
		"label, no value":      {args: []string{"run", "--cluster-labels", "tier"}, code: exitUsage, want: `--cluster-labels: "tier" is not KEY=VALUE`},
		"label, odd key":       {args: []string{"run", "--cluster-labels", "a=b,/x=y"}, code: exitUsage, want: `--cluster-labels: "/x" is not a label key`},
		"label, odd value":     {args: []string{"run", "--cluster-labels", "a=b c"}, code: exitUsage, want: `--cluster-labels: "b c" is not a label value`},
		"label, twice":         {args: []string{"run", "--cluster-labels", "a=b", "--cluster-labels", "a=c"}, code: exitUsage, want: `--cluster-labels: "a" is named twice`},
		"label, an agent's":    {args: []string{"run", "--cluster-labels", "cluster-registry.k8s.cisco.com/original-name=a"}, code: exitUsage, want: "--cluster-labels"},
		"labels from config":   {args: []string{"run", "--config", file("l", "cluster-labels: [a=b, c]\n")}, code: exitUsage, want: `--cluster-labels: "c"`},
		"listen":               {args: []string{"run", "--mesh-listen", "7946"}, code: exitUsage, want: "--mesh-listen"},
		"advertise everything": {args: []string{"run", "--mesh-advertise", "0.0.0.0:7946"}, code: exitUsage, want: "--mesh-advertise"},
		"service, no name":     {args: []string{"run", "--mesh-service", "mesh"}, code: exitUsage, want: "--mesh-service"},
		"two addresses":        {args: []string{"run", "--mesh-service", "a/b", "--mesh-advertise", "a:1"}, code: exitUsage, want: "--mesh-service"},
		"group, no disk":       {args: []string{"run", "--group-peers", "a:1,b:1", "--group-address", "a:1", "--data-dir", ""}, code: exitUsage, want: "--group-peers: needs --data-dir"},
		"group, no address":    {args: []string{"run", "--group-peers", "a:1,b:1"}, code: exitUsage, want: "--group-peers: needs --group-address"},
		"group, odd peer":      {args: []string{"run", "--group-peers", "a:1,b", "--group-address", "a:1"}, code: exitUsage, want: "--group-peers"},
		"group, odd address":   {args: []string{"run", "--group-peers", "a:1,b:1", "--group-address", ":7946"}, code: exitUsage, want: "--group-address"},
		"group, not in it":     {args: []string{"run", "--group-peers", "a:1,b:1", "--group-address", "c:1"}, code: exitUsage, want: "--group-address: c:1 is not one of --group-peers"},
		"group, named twice":   {args: []string{"run", "--group-peers", "a:1,a:1", "--group-address", "a:1"}, code: exitUsage, want: "--group-peers: names a:1 twice"},
		"group, too many":      {args: []string{"run", "--group-peers", "a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8,a:9,b:1", "--group-address", "a:1"}, code: exitUsage, want: "--group-peers: names 10 agents; 9 are the most"},
		"address, no group":    {args: []string{"run", "--group-address", "a:1"}, code: exitUsage, want: "--group-address: is of no use without --group-peers"},
		"group from config":    {args: []string{"run", "--config", file("g", "group-peers: [a:1, b:1]\n")}, code: exitUsage, want: "--group-peers: needs --group-address"},
		"group from variables": {args: []string{"run"}, env: map[string]string{"ROSTER_GROUP_PEERS": "a:1,b:1"}, code: exitUsage, want: "--group-peers: needs --group-address"},
		"local, any port":      {args: []string{"run", "--local", "embedded", "--local-listen", ":0"}, code: exitUsage, want: `--local-listen: ":0" would be another port`},
		"readers' Secrets":     {args: []string{"run", "--renew-namespaces", "argocd,cluster-registry"}, code: exitUsage, want: "--renew-namespaces: cluster-registry is the agent's own"},
		"same port twice":      {args: []string{"run", "--mesh-listen", ":7000", "--http-listen", ":7000"}, code: exitUsage, want: "--http-listen"},
		"endpoint":             {args: []string{"run", "--apiserver-endpoint", "10.0.0.1:6443"}, code: exitUsage, want: "--apiserver-endpoint"},
		"workers":              {args: []string{"run", "--workers", "0"}, code: exitUsage, want: "--workers"},
		"tombstones below 0":   {args: []string{"run", "--tombstones", "-1"}, code: exitUsage, want: "--tombstones"},
		"requests below 0":     {args: []string{"run", "--kube-api-qps", "-1"}, code: exitUsage, want: "--kube-api-qps"},
		"workers, text":        {args: []string{"run", "--workers", "many"}, code: exitUsage, want: "workers"},
		"environment":          {args: []string{"run"}, env: map[string]string{"ROSTER_LOG_LEVEL": "loud"}, code: exitUsage, want: "--log-level"},
		"two at once":          {args: []string{"run", "--namespace", "A", "--workers", "0"}, code: exitUsage, want: "--workers"},
		"no config file":       {args: []string{"run", "--config", filepath.Join(dir, "none")}, code: exitUsage, want: "--config"},
		"config, not YAML":     {args: []string{"run", "--config", file("a", "{")}, code: exitUsage, want: "--config"},
		"config, unknown key":  {args: []string{"run", "--config", file("b", "clustername: x\n")}, code: exitUsage, want: `"clustername"`},
		"config, bad value":    {args: []string{"run", "--config", file("c", "workers: some\n")}, code: exitUsage, want: "workers"},
		"config is read":       {args: []string{"run", "--config", file("d", "log-level: loud\n")}, code: exitUsage, want: `"loud"`},
		"flag beats config":    {args: []string{"run", "--workers", "0", "--config", file("e", "workers: 3\n")}, code: exitUsage, want: "0 is not between"},
		"consent":              {args: []string{"run", "--consent-kinds", "Deployment.apps"}, code: exitUsage, want: "consent.allow.kinds"},
		"config with a list":   {args: []string{"run", "--config", file("f", "consent-secret-types: [helm.sh/release.v1, Opaque]\n")}, code: exitUsage, want: `"Opaque"`},
		"secrets as Secrets":   {args: []string{"run", "--consent-secrets-as", "Secret"}, code: exitUsage, want: "consent.allow.secretsAs"},
		"accept what":          {args: []string{"run", "--trust-accept", "some"}, code: exitUsage, want: "--trust-accept: \"some\" is not all, objects or none"},
		"authority":            {args: []string{"run", "--trust-authorities", "a,b/0123"}, code: exitUsage, want: "--trust-authorities: \"b/0123\" is not CLUSTERID/FINGERPRINT"},
		"wrong kubeconfig":     {args: []string{"run", "--http-listen", "", "--kubeconfig", filepath.Join(dir, "none")}, code: exitFailed, want: filepath.Join(dir, "none")},
		"kubeconfig, not one":  {args: []string{"run", "--http-listen", "", "--kubeconfig", file("k", "x: [")}, code: exitFailed, want: "not a kubeconfig"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), append([]string{"agent"}, tt.args...), &stdout, &stderr)
			message := stderr.String()
			if code != tt.code || !strings.Contains(message, tt.want) || strings.Count(message, "\n") != 1 || stdout.Len() > 0 {
				t.Errorf("exit %d (want %d), stderr %q (want one line with %q), stdout %q", code, tt.code, message, tt.want, stdout.String())
			}
		})
	}
}

func TestVersion(t *testing.T) {
	for command, want := range map[string]string{
		"version":   `^agent dev \(commit unknown of unknown, go\S+, \w+/\w+\)\n$`,
		"--version": `^agent version dev\n$`,
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"agent", command}, &stdout, &stderr)
		if code != 0 || !regexp.MustCompile(want).MatchString(stdout.String()) || stderr.Len() > 0 {
			t.Errorf("agent %s: exit %d, stdout %q (want %s), stderr %q", command, code, stdout.String(), want, stderr.String())
		}
	}
}
