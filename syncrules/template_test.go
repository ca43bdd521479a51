// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Masterminds/sprig/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// How long any rule and any object may take.
const (
	maxTime  = 2 * time.Second
	maxAlloc = 64 << 20
)

// bounded runs f, which must not take more. The time is that of the process, since the machine has others.
func bounded(t testing.TB, what string, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := processTime(t)
	f()
	took := processTime(t) - start
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; (took > maxTime || made > maxAlloc) && !raced() {
		t.Errorf("%s: %s, %d MiB", what, took, made>>20)
	}
}

// raced says that the race detector runs, which takes time and memory of its own. The Makefile's test-race runs the tests of
// packages that call it without it, too.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func processTime(t testing.TB) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func templateRule(t testing.TB, kind string, values ...string) *Rule {
	t.Helper()
	api := &v1alpha1.ResourceSyncRule{}
	api.Name = "r"
	api.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: kind}
	api.Spec.Rules = []v1alpha1.SyncRule{{}}
	for i, v := range values {
		api.Spec.Rules[0].Mutations.Overrides = append(api.Spec.Rules[0].Mutations.Overrides,
			v1alpha1.Override{Path: fmt.Sprintf("/out?/v%d", i), Value: v})
	}
	rule, err := Compile(api)
	if err != nil {
		t.Fatal(err)
	}
	return rule
}

// largeObject is one of about the largest that a server takes.
func largeObject() *unstructured.Unstructured {
	data := map[string]any{}
	for i := range 20_000 {
		data[fmt.Sprintf("key-%05d", i)] = "some value of a few bytes"
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"},
		"data": data, "big": strings.Repeat("x ", 500_000), "list": make([]any, 100_000),
	}}
}

// endless are templates that do not end, or grow without end.
func endless() []string {
	const grow = `{{ $x := "xxxxxxxxxxxxxxxx" }}{{ range until 10000 }}{{ $x = %s }}{{ end }}`
	return []string{
		`{{ range until 1000000000 }}{{ end }}`,
		`{{ range 1000000000 }}{{ end }}`,
		`{{ range $i := 1000000000 }}{{ end }}`,
		`{{ range untilStep 9223372036854775000 9223372036854775807 1000 }}{{ end }}`,
		`{{ range untilStep 0 -9223372036854775807 -1 }}{{ end }}`,
		`{{ seq 1 1000000000 }}{{ seq 0 -1 -1000000000 }}`,
		`{{ range .Object.data }}{{ range $.Object.data }}{{ range $.Object.data }}{{ end }}{{ end }}{{ end }}`,
		`{{ range .Object.data }}{{ range $.Object.data }}{{ break }}{{ end }}{{ end }}`,
		`{{ range .Object.list }}{{ range $.Object.list }}{{ continue }}{{ end }}{{ end }}`,
		`{{ range .Object.data }}{{ if eq $.Object.big $.Object.big }}{{ end }}{{ end }}`,
		`{{ range .Object.list }}{{ if $.Object.big | eq (print $.Object.big) }}{{ end }}{{ end }}`,
		`{{ range .Object.list }}{{ if lt $.Object.big "x" }}{{ end }}{{ $x := index $.Object.data $.Object.big }}{{ end }}`,
		`{{ range .Object.list }}{{ $x := get $.Object.data $.Object.big }}{{ end }}`,
		`{{ range .Object.list }}{{ $x := $.Object.GetLabels }}{{ $y := $.Object.Spec }}{{ end }}`,
		`{{ range .Object.list }}{{ $x := $.Cluster }}{{ end }}`,
		`{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`,
		`{{ define "a" }}{{ template "b" . }}{{ template "b" . }}{{ end }}{{ define "b" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`,
		`{{ define "value" }}{{ template "value" . }}{{ end }}`,
		`{{ template "value" . }}`,
		fmt.Sprintf(grow, `print $x $x`), fmt.Sprintf(grow, `printf "%s%s" $x $x`), fmt.Sprintf(grow, `quote $x`),
		fmt.Sprintf(grow, `repeat 2 $x`), fmt.Sprintf(grow, `join $x (list $x $x)`), fmt.Sprintf(grow, `replace "x" "xxx" $x`),
		fmt.Sprintf(grow, `cat $x $x`), fmt.Sprintf(grow, `b64enc $x`), fmt.Sprintf(grow, `toJson $x`), fmt.Sprintf(grow, `indent 50 $x`),
		fmt.Sprintf(grow, `nindent 50 (replace "x" "\n" $x)`), fmt.Sprintf(grow, `wrapWith 1 "abcdefgh" $x`), fmt.Sprintf(grow, `urlquery $x "%%"`),
		fmt.Sprintf(grow, `regexReplaceAll "." $x "$0$0"`), fmt.Sprintf(grow, `js $x "'"`), fmt.Sprintf(grow, `html $x "<"`),
		fmt.Sprintf(grow, `list $x $x`), fmt.Sprintf(grow, `dict "a" $x "b" $x`), fmt.Sprintf(grow, `append (list $x) $x`),
		`{{ $x := list 1 }}{{ range until 100 }}{{ $x = list $x $x }}{{ end }}{{ $x }}`,
		`{{ $x := list 1 }}{{ range until 100 }}{{ $x = list $x $x }}{{ end }}{{ deepCopy $x | toJson | len }}`,
		`{{ $x := list 1 }}{{ range until 100 }}{{ $x = list $x $x }}{{ end }}{{ deepEqual $x $x }}`,
		`{{ $x := dict }}{{ range until 100 }}{{ $_ := set $x "a" $x }}{{ $_ := set $x "b" $x }}{{ end }}{{ toJson $x }}`,
		`{{ $x := dict }}{{ range until 100 }}{{ $x = merge (dict "a" $x "b" $x) $x }}{{ end }}{{ toJson $x }}`,
		`{{ $x := list }}{{ range until 100000 }}{{ $x = append $x 1 }}{{ end }}{{ len $x }}`,
		`{{ $x := "" }}{{ range until 10000 }}{{ $x = print "[" $x "]" }}{{ end }}{{ fromJson $x | toPrettyJson }}`,
		`{{ fromJson (print (repeat 100000 "[") (repeat 100000 "]")) | toPrettyJson }}`,
		`{{ printf "%1000000d%1000000d%1000000d%1000000d%1000000d%1000000d%1000000d%1000000d%1000000d%1000000d%1000000d" 1 }}`,
		`{{ printf "%*d" 1000000 1 }}{{ printf "%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s" .Object.big }}`,
		`{{ split "" .Object.big | len }}`, `{{ splitList "" .Object.big | len }}`, `{{ uniq .Object.list }}`, `{{ without .Object.list 1 2 3 | len }}`,
		`{{ range .Object.list }}{{ $x := has 1 $.Object.list }}{{ end }}`, `{{ range .Object.list }}{{ $x := toJson $.Object }}{{ end }}`,
		`{{ regexMatch "(((a{10}){10}){10})*b" .Object.big }}`, `{{ range .Object.list }}{{ $x := regexMatch "(x|x )*y" $.Object.big }}{{ end }}`,
		`{{ regexFindAll "" .Object.big -1 | len }}`, `{{ regexReplaceAll "" .Object.big .Object.big }}`, `{{ regexMatch "(?i)(` + strings.Repeat(`\\pL{30}`, 60) + `)" "x" }}`,
		`{{ regexMatch "` + strings.Repeat("(", 500) + strings.Repeat("){2}", 100) + `" "x" }}`,
		`{{ semver (repeat 100000 "1") }}{{ semverCompare .Object.big "1.2.3" }}`, `{{ semverCompare "1.2.3" .Object.big }}`,
		`{{ mulf 1e308 ` + strings.Repeat("1e308 ", 1000) + `}}`, `{{ chunk 0 .Object.list }}{{ chunk -1 .Object.list }}`,
		`{{ repeat -1 "x" }}`, `{{ indent 1000000000 "x" }}`, `{{ until -1000000000 }}`, `{{ toDecimal .Object.big }}{{ atoi .Object.big }}`,
		`{{ ` + strings.Repeat("(", 4000) + `1` + strings.Repeat(")", 4000) + ` }}`, strings.Repeat(`{{ if 1 }}`, 500) + strings.Repeat(`{{ end }}`, 500),
		`{{ $x := repeat 400000 "\x01" }}{{ toJson $x | len }}{{ quote $x | quote | len }}{{ js $x | js | js | len }}{{ list $x $x $x | toJson | len }}`,
		`{{ trimAll (repeat 100000 "é") (repeat 100000 "é") }}`, `{{ trimAll (print (repeat 100000 "a") "é") (repeat 100000 "é") }}`,
	}
}

func TestTemplatesEnd(t *testing.T) {
	source := largeObject()
	in := Input{Owner: origin, Cluster: cluster(origin, "a"), LocalCluster: cluster(self, "b")}
	for _, value := range endless() {
		t.Run(value[:min(len(value), 100)], func(t *testing.T) {
			rule := templateRule(t, "ConfigMap", value)
			bounded(t, "rendering", func() {
				if _, err := Render([]*Rule{rule}, source, in); err != nil && !errors.Is(err, ErrSource) {
					t.Error(err)
				}
			})
		})
	}
}

// FuzzTemplate: no template takes long, and its result is the same when it is executed again.
func FuzzTemplate(f *testing.F) {
	for i, value := range endless() {
		if i%8 == 0 { // TestTemplatesEnd runs all of them
			f.Add(value)
		}
	}
	source := largeObject()
	in := Input{Owner: origin, Cluster: cluster(origin, "a"), LocalCluster: cluster(self, "b")}
	f.Fuzz(func(t *testing.T, value string) {
		var p *program
		var errs []error
		bounded(t, "compiling", func() { p, errs = (&compiler{}).template(value) })
		if len(errs) > 0 {
			return
		}
		var first, second string
		var err, again error
		bounded(t, "executing", func() { first, err = p.execute(newRendering(source, in)) })
		second, again = p.execute(newRendering(source, in))
		if first != second || fmt.Sprint(err) != fmt.Sprint(again) {
			t.Errorf("%q (%v), then %q (%v)", first, err, second, again)
		}
	})
}

// TestEveryFunctionIsDecidedOn: each function of Sprig is either allowed or refused, also the new ones of another version.
func TestEveryFunctionIsDecidedOn(t *testing.T) {
	known, refused := functions(), refusedFunctions()
	for name := range sprig.TxtFuncMap() {
		_, isKnown := known[name]
		_, isRefused := refused[name]
		if isKnown == isRefused {
			t.Errorf("%s: known %t, refused %t", name, isKnown, isRefused)
		}
	}
	for name, f := range known {
		if !f.call.IsValid() || f.call.IsNil() {
			t.Errorf("%s is no function", name)
		}
	}
	for name := range costs() {
		if _, ok := known[name]; !ok {
			t.Errorf("there is a cost for %s, which is not known", name)
		}
	}
}

// TestTemplatesRunAtOnce: a rule is used from many goroutines.
func TestTemplatesRunAtOnce(t *testing.T) {
	rule := templateRule(t, "ConfigMap",
		`{{ $_ := set .Object.data "a" .Object.GetName }}{{ .Object.data.a }}`, `{{ .Cluster.Name }}{{ range $k, $v := .Object.data }}{{ $k }}{{ end }}`,
		`{{ define "x" }}{{ . | upper }}{{ end }}{{ template "x" .Object.GetName }}`)
	in := Input{Owner: origin, Cluster: cluster(origin, "a"), LocalCluster: cluster(self, "b")}
	source := object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: b}}`)
	want, err := Render([]*Rule{rule}, source, in)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if got, err := Render([]*Rule{rule}, source, in); err != nil || !equal(got, want) {
					t.Errorf("%v %v", got, err)
				}
			}
		})
	}
	all.Wait()
}

// TestClusterDataIsAllThereIs: templates can read every exported field of a Cluster, and call no method.
func TestClusterDataIsAllThereIs(t *testing.T) {
	c := cluster(origin, "paris")
	data, _ := clusterData(c).(map[string]any)
	text := fmt.Sprint(data)
	if strings.Contains(text, "hidden") {
		t.Errorf("the credential is in %s", text)
	}
	if err := (&meter{left: budget}).tree(data); err != nil {
		t.Error(err)
	}
	spec, _ := data["Spec"].(map[string]any)
	for _, name := range []string{"Name", "GetName", "Labels", "GetLabels", "Spec", "Status", "ObjectMeta", "CreationTimestamp"} {
		if _, ok := data[name]; !ok {
			t.Errorf("no %s in %s", name, text)
		}
	}
	if spec["ClusterID"] != origin || c.Spec.AuthInfo.SecretRef.Name == "" {
		t.Errorf("%v from %v", spec, c.Spec)
	}
	data["Labels"].(map[string]any)["tier"] = "changed"
	if c.Labels["tier"] != "prod" {
		t.Error("the Cluster was changed")
	}
}

// TestWhatTemplatesRead: what a template reads determines which fields of sources are kept, and when copies are rendered
// again. If a field were missing, a copy would be wrong, and stay so.
func TestWhatTemplatesRead(t *testing.T) {
	for value, want := range map[string]reading{
		`{{ .Object.metadata.name }}{{ .Object.GetName }}{{ .Object.Labels.a }}{{ .Object.spec.x.status }}`: {},
		`{{ range .Object.spec.l }}{{ . }}{{ .status }}{{ .Cluster }}{{ end }}`:                             {},
		`{{ with .Object.spec }}{{ $.Object.data.x }}{{ end }}{{ $x := .Object.data }}{{ $x.status }}`:      {},
		`{{ .Object.status.x }}`:                                      {readsContent: true},
		`{{ .Object.Status.x }}`:                                      {readsContent: true},
		`{{ .Object.metadata.uid }}`:                                  {readsContent: true},
		`{{ .Object.metadata }}`:                                      {readsContent: true},
		`{{ .Object }}`:                                               {readsContent: true},
		`{{ (.Object).status }}`:                                      {readsContent: true},
		`{{ with .Object }}{{ .status }}{{ end }}`:                    {readsContent: true},
		`{{ get .Object "status" }}`:                                  {readsContent: true},
		`{{ range .Object.spec.l }}{{ $.Object.UID }}{{ end }}`:       {readsContent: true},
		`{{ .Cluster.Name }}`:                                         {readsClusters: true},
		`{{ if .LocalCluster.Name }}{{ end }}`:                        {readsClusters: true},
		`{{ range .Object.spec.l }}{{ $.Cluster.Name }}{{ end }}`:     {readsClusters: true},
		`{{ range .Object.spec.l }}{{ else }}{{ .Cluster }}{{ end }}`: {readsClusters: true},
		`{{ . }}`:                             {true, true},
		`{{ index $ "Cluster" }}`:             {true, true},
		`{{ with $ }}{{ .Cluster }}{{ end }}`: {true, true},
		`{{ define "x" }}{{ .Cluster }}{{ end }}{{ template "x" . }}`:            {true, true},
		`{{ define "x" }}{{ $.status }}{{ end }}{{ template "x" .Object.spec }}`: {true, true},
		`{{ $x := . }}{{ $x.Cluster }}`:                                          {true, true},
	} {
		p, errs := (&compiler{}).template(value)
		if len(errs) > 0 {
			t.Fatalf("%s: %v", value, errs)
		}
		if p.reading != want {
			t.Errorf("%s reads %+v, want %+v", value, p.reading, want)
		}
	}
}

// TestErrorsOfSecrets: no error about a Secret contains values of it.
func TestErrorsOfSecrets(t *testing.T) {
	source := object(t, `{apiVersion: v1, kind: Secret, metadata: {name: x}, data: {p: hunter2, n: "12"}}`)
	for _, value := range []string{
		`{{ fail .Object.data.p }}`, `{{ .Object.data.p | mustFromJson }}`, `{{ mustRegexMatch .Object.data.p "(" }}{{ mustRegexMatch "(" "x" }}`,
		`{{ index .Object.data.p .Object.data.p }}`, `{{ semver .Object.data.p }}`, `{{ template "x" .Object.data.p }}{{ define "x" }}{{ fail . }}{{ end }}`,
		`{{ slice .Object.data.p 1 }}`, `{{ duration .Object.data.p | fail }}`, `{{ get .Object.data.p "x" }}`, `{{ urlParse (print "http://%" .Object.data.p) }}`,
	} {
		_, err := Render([]*Rule{templateRule(t, "Secret", value)}, source, Input{Owner: origin})
		if err == nil || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v", value, err)
		}
	}
}
