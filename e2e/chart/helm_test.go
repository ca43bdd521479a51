// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/e2e/harness"
)

// standard is the set of values that the others are compared with.
const standard = "default"

// release is what helm calls it where nothing is said, as in what harness.Install applies.
const release = "release-name"

func binaries(t *testing.T) harness.Binaries {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// helm runs helm without any cluster but the one that a flag names.
func helm(ctx context.Context, t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(ctx, binaries(t).Helm, args...)
	home := t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "KUBECONFIG=" + filepath.Join(home, "none")}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, &stderr)
	}
	return stdout.String(), err
}

// render is `helm template`.
func render(t *testing.T, flags ...string) (string, error) {
	t.Helper()
	return helm(t.Context(), t, append([]string{"template", release, binaries(t).Chart, "-n", harness.Namespace}, flags...)...)
}

// sets are the names of the sets of values, the standard one first.
func sets(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(binaries(t).Chart, "testdata", "*.values.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d sets of values: %v", len(files), err)
	}
	names := []string{standard}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".values.yaml"); name != standard {
			names = append(names, name)
		}
	}
	return names
}

func valuesOf(t *testing.T, set string) string {
	t.Helper()
	return filepath.Join(binaries(t).Chart, "testdata", set+".values.yaml")
}

// documents splits what helm rendered.
func documents(rendered string) []string {
	var out []string
	for document := range strings.SplitSeq(rendered, "\n---\n") {
		if document = strings.TrimSpace(strings.TrimPrefix(document, "---\n")); document != "" {
			out = append(out, document)
		}
	}
	return out
}

// title is the template of a document and what it makes.
func title(document string) string {
	var template, kind, name, namespace string
	for line := range strings.Lines(document) {
		line = strings.TrimRight(line, "\n")
		set := func(to *string, prefix string) {
			if *to == "" && strings.HasPrefix(line, prefix) {
				*to = strings.TrimPrefix(line, prefix)
			}
		}
		set(&template, "# Source: ")
		set(&kind, "kind: ")
		set(&name, "  name: ")
		set(&namespace, "  namespace: ")
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", template, kind, name, namespace))
}

// beside is what differs from the standard documents, with the titles of what is missing.
func beside(all, standard []string) string {
	var b strings.Builder
	titles := make([]string, 0, len(all))
	for _, document := range all {
		titles = append(titles, title(document))
		if !slices.Contains(standard, document) {
			b.WriteString("---\n" + document + "\n")
		}
	}
	for _, document := range standard {
		if name := title(document); !slices.Contains(titles, name) {
			b.WriteString("# not: " + name + "\n")
		}
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	var first []string
	for _, set := range sets(t) {
		out, err := render(t, "--values", valuesOf(t, set))
		if err != nil {
			t.Errorf("%s: %v", set, err)
			continue
		}
		got := beside(documents(out), first)
		if set == standard {
			first = documents(out)
		}
		path := filepath.Join(binaries(t).Chart, "testdata", set+".golden.yaml")
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: if this is as it should be, write it with UPDATE_GOLDEN=1 (-golden +rendered):\n%s", set, diff)
		}
	}
}

func TestLint(t *testing.T) {
	for _, set := range sets(t) {
		out, err := helm(t.Context(), t, "lint", "--strict", binaries(t).Chart, "--values", valuesOf(t, set))
		if err != nil {
			t.Errorf("%s: %v\n%s", set, err, out)
		}
	}
}

// What is of the wrong type, unknown, or contradicts another value is refused with the value's name.
func TestRefuses(t *testing.T) {
	for _, test := range []struct{ flag, want string }{
		{"--set=replicas=2", "replicas"},
		{"--set-string=replicas=1", "replicas"},
		{"--set=ha.enabled=true,replicas=3", "replicas"},
		{"--set=ha.enabled=1", "enabled"},
		{"--set=ha.enabled=true,persistence.enabled=true,persistence.existingClaim=mine", "persistence.existingClaim"},
		{"--set=replica=1", "replica"},
		{"--set=localCluster.nme=a", "nme"},
		{"--set=localCluster.name=A_b", "localCluster.name"},
		{"--set=localCluster.manageSecret=maybe", "manageSecret"},
		{"--set=localCluster.labels.tier=a b", "localCluster"},
		{"--set=localCluster.labels.-=a", "localCluster.labels"},
		{"--set-string=localCluster.labels.cluster-registry\\.k8s\\.cisco\\.com/x=a", "localCluster.labels"},
		{"--set=localCluster.labels={tier}", "localCluster"},
		{"--set=mesh.port=70000", "port"},
		{"--set=mesh.advertise=nowhere", "advertise"},
		{"--set=mesh.service.type=ExternalName", "type"},
		{"--set=mesh.service.nodePort=31946", "mesh.service.nodePort"},
		{"--set=mesh.service.annotations.a=1", "annotations"},
		{"--set=mesh.port=8080", "health.port"},
		{"--set=apiServerEndpointAddress=http://x", "apiServerEndpointAddress"},
		{"--set=controller.log.level=loud", "level"},
		{"--set=controller.workers=0", "workers"},
		{"--set=controller.pprof=maybe", "pprof"},
		{"--set=controller.pprof=true,service.type=NodePort", "controller.pprof"},
		{"--set=controller.kubeAPIQPS=-1", "kubeAPIQPS"},
		{"--set=consent.allow.kinds={Deployment.apps}", "kinds"},
		{"--set=consent.allow.secretTypes={Opaque}", "secretTypes"},
		{"--set=consent.allow.secretsAs={Secret}", "secretsAs"},
		{"--set=consent.allow.secretsAs={configmaps}", "secretsAs"},
		{"--set=trust.accept=some", "accept"},
		{"--set=trust.authorities={The Hub}", "authorities"},
		{"--set=trust.authorities={hub/0123}", "authorities"},
		{"--set=publish.clusterProfiles=1", "clusterProfiles"},
		{"--set=publish.namespace=inventory", "publish.clusterProfiles"},
		{"--set=publish.clusterProfiles=true,publish.namespace=A", "namespace"},
		{"--set=publish.clusterProfiles=true,publish.namespace=cluster-registry-private", "publish.namespace"},
		{"--set=publish.clusterProfiles=true,publish.clusterSet=a b", "clusterSet"},
		{"--set=renew.namespaces={A}", "namespaces"},
		{"--set=renew.namespaces={argocd},rbac.broadSecretRead=true", "renew.namespaces does not go with rbac.broadSecretRead"},
		{"--set=renew.namespaces={cluster-registry}", "renew.namespaces: cluster-registry is the agent's own"},
		{"--set=renew.namespaces={cluster-registry-private}", "renew.namespaces: cluster-registry-private is the agent's own"},
		{"--set=renew.namespaces={argocd,cluster-registry-readers}", "renew.namespaces: cluster-registry-readers is the agent's own"},
		{"--set=registry.enabled=1", "enabled"},
		{"--set=registry.replicas=0", "replicas"},
		{"--set=registry.port=443", "port"},
		{"--set=registry.callers={system:authenticated,system:unauthenticated}", "registry.callers must not have system:unauthenticated"},
		{"--set=registry.callers={system:anonymous}", "registry.callers must not have system:anonymous"},
		{"--set=registry.callers=fleet", "callers"},
		{"--set=registry.image.tag=a/b", "tag"},
		{"--set=registry.enabled=true,registry.image=null", "--reset-then-reuse-values"},
		{"--set=registry.resources.limit.memory=1", "limit"},
		{"--set=ui.enabled=true", "ui.enabled needs ui.tlsSecretName"},
		{"--set=ui.enabled=1", "enabled"},
		{"--set=ui.tlsSecretName=A/b", "tlsSecretName"},
		{"--set=ui.tls=x", "tls"},
		{"--set=rbac.broadSecretRead=yes please", "broadSecretRead"},
		{"--set=crds.upgrade=sometimes", "upgrade"},
		{"--set=image.pullPolicy=Maybe", "pullPolicy"},
		{"--set=image.tag=1", "tag"},
		{"--set=image.tag=a/b", "tag"},
		{"--set=imagePullSecrets={a}", "imagePullSecrets"},
		{"--set=podLabels.a=1", "podLabels"},
		{"--set-string=podLabels.app\\.kubernetes\\.io/name=x", "podLabels"},
		{"--set=commonLabels.a=1", "commonLabels"},
		{"--set-string=commonLabels.app\\.kubernetes\\.io/name=x", "commonLabels must not set app.kubernetes.io/name"},
		{"--set=commonLabels.a=x,podLabels.a=y", "commonLabels and podLabels both set a"},
		{"--set=commonLabels.grafana_dashboard=x", "commonLabels and monitoring.dashboard.labels both set grafana_dashboard"},
		{"--set-string=commonLabels.cluster-registry\\.k8s\\.cisco\\.com/x=y", "commonLabels must not set cluster-registry.k8s.cisco.com/x"},
		{"--set-string=commonLabels.local\\.cluster-registry\\.k8s\\.cisco\\.com/x=y", "commonLabels must not set local.cluster-registry.k8s.cisco.com/x"},
		{"--set-string=commonLabels.rbac\\.authorization\\.k8s\\.io/aggregate-to-admin=true", "commonLabels must not set rbac.authorization.k8s.io/aggregate-to-admin"},
		{"--set=extraArgs={workers=8}", "extraArgs"},
		{"--set=extraArgs={--workers=8,--consent-kinds=Role.rbac.authorization.k8s.io}", "extraArgs must not set --consent-kinds"},
		{"--set=extraArgs={-trust-authorities=x}", "extraArgs must not set --trust-authorities"},
		{"--set=extraArgs={--cluster-labels=x}", "extraArgs must not set --cluster-labels"},
		{"--set=extraArgs={--group-peers=x}", "extraArgs must not set --group-peers"},
		{"--set=extraEnv[0].value=x", "extraEnv"},
		{"--set=extraEnv[0].name=POD_NAME", "extraEnv must not set POD_NAME"},
		{"--set=extraVolumes[0].name=data", "extraVolumes must not have data"},
		{"--set=extraVolumeMounts[0].name=x", "extraVolumeMounts"},
		{"--set=extraObjects={1}", "extraObjects"},
		{"--set=dnsConfig=x", "dnsConfig"},
		{"--set=revisionHistoryLimit=-1", "revisionHistoryLimit"},
		{"--set=monitoring.podMonitor.enabled=true,monitoring.serviceMonitor.enabled=true", "monitoring.podMonitor and monitoring.serviceMonitor"},
		{"--set=resources.limit.memory=1", "limit"},
		{"--set=topologySpreadConstraints={a}", "topologySpreadConstraints"},
		{"--set=priorityClassName=A B", "priorityClassName"},
		{"--set=terminationGracePeriodSeconds=0", "terminationGracePeriodSeconds"},
		{"--set=networkPolicy.metricsNamespaces={monitoring}", "networkPolicy.enabled"},
		{"--set=networkPolicy.enabled=1", "enabled"},
		{"--set=monitoring.serviceMonitor.interval=soon", "interval"},
		{"--set=monitoring.alerts=true", "alerts"},
		{"--namespace=" + strings.Repeat("n", 60), "namespace"},
	} {
		out, err := render(t, test.flag)
		if err == nil {
			t.Errorf("%s: is taken:\n%.500s", test.flag, out)
			continue
		}
		if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error does not name %s: %v", test.flag, test.want, err)
		}
	}
}

// An upgrade with --reuse-values has none of the values that came after the release that is there.
func TestValuesOfAnOlderRelease(t *testing.T) {
	for _, later := range []string{"readers", "publish", "credentials", "trust", "registry", "ui", "commonLabels", "extraArgs", "extraEnv", "extraVolumes", "extraVolumeMounts", "extraObjects", "dnsConfig", "revisionHistoryLimit", "monitoring.podMonitor", "monitoring.serviceMonitor"} {
		if _, err := render(t, "--set="+later+"=null"); err != nil {
			t.Errorf("without %s: %v", later, err)
		}
	}
	out, err := render(t, "--set=readers=null,registry.enabled=true,registry.flowControl=null")
	if err != nil || strings.Contains(out, "kind: FlowSchema") {
		t.Errorf("a share that nobody gave a number: %v", err)
	}
}

// Everything that the chart makes has the common labels, with any set of values; no selector has them, which could not be changed later.
func TestCommonLabels(t *testing.T) {
	const label = "kept-apart: here"
	for _, set := range sets(t) {
		out, err := render(t, "--values", valuesOf(t, set), "--set=commonLabels.kept-apart=here,crds.upgrade=always")
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range documents(out) {
			if strings.Contains(document, "templates/extra-objects.yaml") {
				continue
			}
			var object struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct {
					Selector any
					Template struct {
						Metadata struct{ Labels map[string]string }
					}
				}
			}
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Fatalf("%s: %v", title(document), err)
			}
			if object.Metadata.Labels["kept-apart"] != "here" {
				t.Errorf("%s: %s lacks the label", set, title(document))
			}
			if pod := object.Spec.Template.Metadata.Labels; pod != nil && pod["kept-apart"] != "here" {
				t.Errorf("%s: the pod of %s lacks the label", set, title(document))
			}
			if selector, err := yaml.Marshal(object.Spec.Selector); err != nil || strings.Contains(string(selector), label) {
				t.Errorf("%s: %s selects by the label, %v", set, title(document), err)
			}
		}
	}
}

// The agents of a group with a volume for each have more volumes beside these.
func TestVolumesBesideClaims(t *testing.T) {
	flags := []string{"--values", valuesOf(t, "ha"), "--set=extraVolumes[0].name=ca,extraVolumes[0].emptyDir.medium=Memory", "--show-only=templates/statefulset.yaml"}
	out, err := render(t, flags...)
	if err != nil || !strings.Contains(out, "      volumes:\n      - emptyDir:\n          medium: Memory\n        name: ca\n") || strings.Contains(out, "- name: data\n        emptyDir") {
		t.Errorf("%v:\n%s", err, out)
	}
}
