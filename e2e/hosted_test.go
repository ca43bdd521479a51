// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roster-mesh/roster/e2e/documents"
	"github.com/roster-mesh/roster/e2e/harness"
)

// hosted is a registry that agentctl init makes in delta. There are no nodes: the test does what the pod would.
type hosted struct {
	*group

	t                  *testing.T
	docs               *documents.Reader
	name, namespace    string
	address            string // HOST:PORT
	kubeconfig, folder string
	running            []*harness.Process
}

const hostedLabels = "app.kubernetes.io/managed-by=agentctl,app.kubernetes.io/instance="

func newHosted(t *testing.T, name string) *hosted {
	t.Helper()
	h := &hosted{group: apart(t), t: t, docs: documents.NewReader(".."), name: name, namespace: "registry-" + name, folder: t.TempDir()}
	var err error
	if h.address, err = harness.FreeAddress(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(h.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	h.kubeconfig = write(t, "kubeconfig", string(data))
	t.Cleanup(func() {
		h.stop()
		h.ask(lasting(t), "delete", name, "--host-cluster-context", "delta", "--delete-data", "--kubeconfig", h.kubeconfig)
	})
	return h
}

// run is agentctl with the registry's own kubeconfig.
func (h *hosted) run(code int, args []string, texts ...string) string {
	h.t.Helper()
	return h.expect(h.t, code, append(args, "--kubeconfig", h.kubeconfig), texts...)
}

// init is the command, with flags.
func (h *hosted) init(code int, flags []string, texts ...string) string {
	h.t.Helper()
	return h.run(code, append(append(h.documented("agentctl init standalone"), "--service-type", "ClusterIP"), flags...), texts...)
}

// documented are the arguments of a command of docs/standalone.md, for this registry and its host.
func (h *hosted) documented(begins string) []string {
	h.t.Helper()
	line, err := h.docs.With("registry-1", h.name, "cluster-1", "delta").Lines(documents.Standalone, begins)
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.Fields(line)[1:]
}

// files writes what the pod would have mounted: the CA of the registry.
func (h *hosted) files(ctx context.Context) (string, error) {
	secret, err := h.delta.Kube.CoreV1().Secrets(h.namespace).Get(ctx, h.name+"-ca", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	dir := filepath.Join(h.folder, "ca")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for name, data := range secret.Data {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// container is one of the StatefulSet's, when that is there.
func (h *hosted) container(name string) corev1.Container {
	h.t.Helper()
	var set *appsv1.StatefulSet
	eventually(h.t, "the StatefulSet of the registry", within, func(ctx context.Context) (err error) {
		set, err = h.delta.Kube.AppsV1().StatefulSets(h.namespace).Get(ctx, h.name, metav1.GetOptions{})
		return err
	})
	for _, c := range set.Spec.Template.Spec.Containers {
		if c.Name == name {
			return c
		}
	}
	h.t.Fatalf("the StatefulSet has no container %s", name)
	return corev1.Container{}
}

// exec starts a program as its container would, with other values for these flags, which are about the pod.
func (h *hosted) exec(program, container string, here map[string]string) *harness.Process {
	h.t.Helper()
	args := slices.Clone(h.container(container).Args)
	for flag, value := range here {
		i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, flag+"=") })
		if i < 0 {
			h.t.Fatalf("the arguments of the container have no %s: %v", flag, args)
		}
		args[i] = flag + "=" + value
	}
	cmd := exec.Command(filepath.Join(filepath.Dir(h.binaries().Agentctl), program), args...)
	cmd.Stderr = h.t.Output()
	process, err := harness.StartProcess(cmd)
	if err != nil {
		h.t.Fatal(err)
	}
	h.running = append(h.running, process)
	return process
}

func (h *hosted) binaries() harness.Binaries {
	h.t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		h.t.Fatal(err)
	}
	return bin
}

// start runs the server.
func (h *hosted) start() {
	h.t.Helper()
	h.container("roster-apiserver")
	ca, err := h.files(lasting(h.t))
	if err != nil {
		h.t.Fatal(err)
	}
	h.exec("roster-apiserver", "roster-apiserver", map[string]string{"--data-dir": h.data(), "--listen": h.address, "--ca": ca})
}

func (h *hosted) data() string { return filepath.Join(h.folder, "data") }

// stop ends what runs, the last first.
func (h *hosted) stop() {
	for _, process := range slices.Backward(h.running) {
		if !process.Ended() {
			_ = process.Signal(syscall.SIGTERM, within)
		}
	}
	h.running = nil
}

// left are the objects that init made and that are still there.
func (h *hosted) left() (kinds []string) {
	h.t.Helper()
	out := kubectl(h.t, h.delta, "get", "statefulsets,services,secrets,persistentvolumeclaims", "-n", h.namespace, "-l", hostedLabels+h.name, "-o", "name")
	out += kubectl(h.t, h.delta, "get", "namespaces", "-l", hostedLabels+h.name, "-o", "name")
	return strings.Fields(out)
}

// TestHostedRegistry: init makes a registry that its own context leads to. A second run changes nothing, and completes one
// that was cut off anywhere. delete keeps the data for the next one, until it is told to delete them: then nothing is left.
func TestHostedRegistry(t *testing.T) {
	h := newHosted(t, "hosted")
	flags := []string{"--advertise", h.address}
	h.init(3, append(flags, "--timeout", "1s"), "created Namespace registry-hosted", "created StatefulSet hosted", "did not answer within")
	h.accepted()
	h.start()
	h.init(0, flags, "unchanged StatefulSet hosted", "kubectl get clusters.clusterregistry.k8s.io --context hosted")
	out := kubectl(t, h.delta, "--kubeconfig", h.kubeconfig, "--context", "hosted", "get", "clusters.clusterregistry.k8s.io", "-o", "name")
	if out != "" {
		t.Errorf("a new registry lists %q", out)
	}
	kubectl(t, h.delta, "--kubeconfig", h.kubeconfig, "--context", "hosted", "create", "namespace", "kept")
	h.init(2, []string{"--image", "another"}, `--image: registry hosted is there, and was made with "docker.io/roster-mesh/roster-apiserver:`)

	for _, lost := range []string{"statefulset/hosted", "statefulset/hosted service/hosted", "namespace/registry-hosted"} {
		h.cutOff(strings.Fields(lost)...)
		if strings.HasPrefix(lost, "namespace") {
			h.stop() // what it has is another registry's now
			if err := os.RemoveAll(h.data()); err != nil {
				t.Fatal(err)
			}
			h.init(3, append(flags, "--timeout", "1s"), "created Secret hosted-ca")
			h.start()
		}
		h.init(0, flags, "wrote context hosted")
	}
	kubectl(t, h.delta, "--kubeconfig", h.kubeconfig, "--context", "hosted", "create", "namespace", "kept")

	h.volume()
	h.run(0, h.documented("agentctl delete"), "deleted context hosted", "deleted StatefulSet hosted", "kept PersistentVolumeClaim data-hosted-0")
	if left := h.left(); len(left) != 3 {
		t.Errorf("delete keeps %v", left)
	}
	h.init(0, flags, "unchanged Secret hosted-ca", "created StatefulSet hosted")
	kubectl(t, h.delta, "--kubeconfig", h.kubeconfig, "--context", "hosted", "get", "namespace", "kept")
	h.run(0, []string{"delete", "hosted", "--host-cluster-context", "delta", "--delete-data"}, "deleted Namespace registry-hosted")
	eventually(t, "nothing is left", within, func(context.Context) error {
		if left := h.left(); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	config, err := clientcmd.LoadFromFile(h.kubeconfig)
	before, otherErr := clientcmd.LoadFromFile(h.Kubeconfig)
	if err := errors.Join(err, otherErr); err != nil {
		t.Fatal(err)
	}
	if len(config.Contexts) != len(before.Contexts) || len(config.AuthInfos) != len(before.AuthInfos) || config.CurrentContext != before.CurrentContext {
		t.Errorf("the kubeconfig has %d contexts and %d users, and had %d and %d", len(config.Contexts), len(config.AuthInfos), len(before.Contexts), len(before.AuthInfos))
	}
	if err := h.docs.Untyped("e2e.TestHostedRegistry"); err != nil {
		t.Error(err)
	}
}

// cutOff leaves things as an init that did not come so far would have, without a context.
func (h *hosted) cutOff(lost ...string) {
	h.t.Helper()
	for _, object := range lost {
		kubectl(h.t, h.delta, "-n", h.namespace, "delete", object)
	}
	for _, what := range []string{"delete-context", "delete-cluster", "delete-user"} {
		kubectl(h.t, h.delta, "config", "--kubeconfig", h.kubeconfig, what, h.name)
	}
}

// accepted: what a dry run prints, the host takes; and pods of that form are such as the namespace lets in.
func (h *hosted) accepted() {
	h.t.Helper()
	h.init(2, []string{"--dry-run", "--storage-class", "fast"}, `--storage-class: registry hosted is there, and was made with ""`)
	cmd := exec.CommandContext(h.t.Context(), h.binaries().Agentctl, "init", "standalone", h.name, "--host-cluster-context", "delta",
		"--kubeconfig", h.kubeconfig, "--dry-run", "-o", "yaml") // without what it says on standard error
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatal(err)
	}
	apply(h.t, h.delta, string(out), "--dry-run=server")

	set, err := h.delta.Kube.AppsV1().StatefulSets(h.namespace).Get(h.t.Context(), h.name, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
	pod.Name = h.name + "-0"
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + pod.Name},
	}})
	eventually(h.t, "the namespace takes such pods", within, func(ctx context.Context) error {
		_, err := h.delta.Kube.CoreV1().Pods(h.namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	pod.Spec.SecurityContext.RunAsNonRoot = nil
	if _, err := h.delta.Kube.CoreV1().Pods(h.namespace).Create(h.t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsForbidden(err) {
		h.t.Errorf("a pod that may run as root: %v", err)
	}
}

// volume makes the claim that the controller of StatefulSets would have made.
func (h *hosted) volume() {
	h.t.Helper()
	set, err := h.delta.Kube.AppsV1().StatefulSets(h.namespace).Get(h.t.Context(), h.name, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	claim := set.Spec.VolumeClaimTemplates[0].DeepCopy()
	claim.Name, claim.Namespace = "data-"+h.name+"-0", h.namespace
	claims := h.delta.Kube.CoreV1().PersistentVolumeClaims(h.namespace)
	if _, err := claims.Create(h.t.Context(), claim, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
	// Nor is there the controller that lets one go that no pod uses any more.
	if _, err := claims.Patch(h.t.Context(), claim.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// TestHostedMember: the agent beside a registry publishes it as a cluster, at the registry's address.
func TestHostedMember(t *testing.T) {
	h := newHosted(t, "member")
	flags := []string{"--advertise", h.address, "--agent"}
	h.init(3, append(flags, "--timeout", "1s"), "did not answer within")
	h.start()
	h.exec("agent", "agent", map[string]string{
		"--kubeconfig": filepath.Join(h.data(), "agent.kubeconfig"), "--data-dir": filepath.Join(h.folder, "agent"),
		"--mesh-listen": "127.0.0.1:0", "--http-listen": "127.0.0.1:0",
	})
	h.init(0, flags, "unchanged StatefulSet member")
	ports := kubectl(t, h.delta, "-n", h.namespace, "get", "service", "member", "-o", "jsonpath={.spec.ports[*].port}")
	if ports != "443 7946" {
		t.Errorf("the Service has ports %s", ports)
	}
	eventually(t, "the registry is a cluster", within, func(context.Context) error {
		out, err := h.delta.Kubectl(lasting(t), "--kubeconfig", h.kubeconfig, "--context", "member", "get", "clusters", "member", "-o",
			"jsonpath={.status.type} {.spec.kubernetesApiEndpoints[0].serverAddress} {.spec.mesh.endpoints[0]}")
		if want := "Local " + "https://" + h.address + " 127.0.0.1:7946"; err == nil && out != want {
			err = fmt.Errorf("it is %q, not %q", out, want)
		}
		return err
	})
}

// TestHostedRegistryNeedsRights: somebody who may not make one is told what he lacks, and nothing is made.
func TestHostedRegistryNeedsRights(t *testing.T) {
	h := newHosted(t, "denied")
	data, err := os.ReadFile(h.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		t.Fatal(err)
	}
	user := config.AuthInfos[config.Contexts["delta"].AuthInfo]
	user.Impersonate = "system:serviceaccount:default:default"
	if err := clientcmd.WriteToFile(*config, h.kubeconfig); err != nil {
		t.Fatal(err)
	}
	h.init(1, nil, "cannot get resource")
	kubectl(t, h.delta, "create", "clusterrole", "hosted-reader", "--verb=get", "--resource=namespaces,secrets,services,statefulsets.apps")
	kubectl(t, h.delta, "create", "clusterrolebinding", "hosted-reader", "--clusterrole=hosted-reader", "--serviceaccount=default:default")
	t.Cleanup(func() {
		kubectl(t, h.delta, "delete", "clusterrolebinding/hosted-reader", "clusterrole/hosted-reader")
	})
	eventually(t, "it is told what it may not do", within, func(ctx context.Context) error {
		a := h.ask(ctx, "init", "standalone", h.name, "--host-cluster-context", "delta", "--kubeconfig", h.kubeconfig)
		if want := "you may not create namespaces, create secrets in namespace registry-denied, create services in namespace registry-denied, create statefulsets.apps in namespace registry-denied; nothing was changed"; a.code != 1 || !strings.Contains(a.out, want) {
			return fmt.Errorf("it ended with %d: %s", a.code, a.out)
		}
		return nil
	})
	if left := h.left(); len(left) > 0 {
		t.Errorf("%v was made", left)
	}
}
