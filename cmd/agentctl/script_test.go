// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
)

func TestMain(m *testing.M) {
	program := func() {
		version, commit, date = "1.4.2", "0123abc", "2026-01-02T03:04:05Z"
		os.Exit(run(context.Background(), os.Args, os.Stdout, os.Stderr))
	}
	testscript.Main(m, map[string]func(){"agentctl": program, pluginName: program, pluginCompleter: program})
}

// TestScripts runs agentctl as a user does. A script's kubeconfig has the contexts east, west and
// nowhere (no server), and its commands are
//
//	seed CONTEXT FILE     put the objects of a file there
//	agent CONTEXT TYPE STATUS REASON MESSAGE   let an agent there set this condition
//	nocrds CONTEXT        as if the chart had not been installed
//	object CONTEXT PATH   print an object that is there
//	writes CONTEXT        print the writing requests so far
//	forbid CONTEXT PART   answer requests whose path has this part with Forbidden
//	crds CONTEXT          put the chart's CRDs there
//	deny CONTEXT RIGHT    let no account have this right, such as "list secrets"
//	ahead CONTEXT TIME    let the clock there be wrong
//	refuse CONTEXT TEXT   answer writes on trial with this refusal
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			servers := map[string]*apitest.Server{"east": apitest.New(), "west": apitest.New()}
			for _, s := range servers {
				env.Defer(s.Close)
			}
			env.Values["servers"] = servers
			path := filepath.Join(env.WorkDir, "kubeconfig")
			env.Setenv("KUBECONFIG", path)
			env.Setenv("HOME", env.WorkDir)
			return os.WriteFile(path, []byte(kubeconfig(servers)), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"seed": func(ts *testscript.TestScript, _ bool, args []string) {
				for doc := range strings.SplitSeq(ts.ReadFile(args[1]), "\n---\n") {
					u := &unstructured.Unstructured{}
					ts.Check(yaml.Unmarshal([]byte(doc), &u.Object))
					server(ts, args[0]).Put(u)
				}
			},
			"agent": func(ts *testscript.TestScript, _ bool, args []string) {
				server(ts, args[0]).SetAgent(apitest.Says(args[1], args[2], args[3], args[4]))
			},
			"crds": func(ts *testscript.TestScript, _ bool, args []string) {
				files, err := filepath.Glob("../../charts/agent/crds/*.yaml")
				ts.Check(err)
				for _, path := range files {
					data, err := os.ReadFile(path)
					ts.Check(err)
					u := &unstructured.Unstructured{}
					ts.Check(yaml.Unmarshal(data, &u.Object))
					server(ts, args[0]).Put(u)
				}
			},
			"deny": func(ts *testscript.TestScript, _ bool, args []string) { server(ts, args[0]).Deny(args[1]) },
			"ahead": func(ts *testscript.TestScript, _ bool, args []string) {
				ahead, err := time.ParseDuration(args[1])
				ts.Check(err)
				server(ts, args[0]).SetClock(ahead)
			},
			"nocrds": func(ts *testscript.TestScript, _ bool, args []string) {
				server(ts, args[0]).RemoveCRDs()
			},
			"object": func(ts *testscript.TestScript, _ bool, args []string) {
				u := server(ts, args[0]).Object(args[1])
				if u == nil {
					ts.Fatalf("no object %s", args[1])
				}
				data, err := yaml.Marshal(u.Object)
				ts.Check(err)
				ts.Check(os.WriteFile(ts.MkAbs("object"), data, 0o600))
			},
			"forbid": func(ts *testscript.TestScript, _ bool, args []string) { server(ts, args[0]).Set(args[1], "") },
			"refuse": func(ts *testscript.TestScript, _ bool, args []string) { server(ts, args[0]).Set("", args[1]) },
			"writes": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(os.WriteFile(ts.MkAbs("writes"), []byte(server(ts, args[0]).Writes()), 0o600))
			},
		},
	})
}

func server(ts *testscript.TestScript, name string) *apitest.Server {
	servers, _ := ts.Value("servers").(map[string]*apitest.Server)
	s := servers[name]
	if s == nil {
		ts.Fatalf("no context %s", name)
	}
	return s
}

func kubeconfig(servers map[string]*apitest.Server) string {
	entry := `
- name: %[1]s
  cluster: {server: "%[2]s"}`
	contexts := `
- name: %[1]s
  context: {cluster: %[1]s, user: nobody}`
	var c, x strings.Builder
	for _, name := range []string{"east", "west", "east-again", "nowhere"} {
		url := "http://127.0.0.1:1" // nothing listens on port 1
		if s := servers[strings.TrimSuffix(name, "-again")]; s != nil {
			url = s.URL
		}
		fmt.Fprintf(&c, entry, name, url)
		fmt.Fprintf(&x, contexts, name)
	}
	return "apiVersion: v1\nkind: Config\ncurrent-context: east\nusers: [{name: nobody, user: {}}]\nclusters:" + c.String() + "\ncontexts:" + x.String() + "\n"
}
