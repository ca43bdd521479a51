// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package importing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/documents"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const (
	// maxObject bounds one object of a file, in bytes of JSON: no API server keeps more.
	maxObject = 1 << 20
	// maxProblems bounds how many errors are shown.
	maxProblems = 50
)

// entry is a cluster of the file.
type entry struct {
	cluster *documents.Document
	secret  *documents.Document // with its credential; nil for none
}

func (e *entry) id() string { return clusters.IDOf(e.cluster.Object) }

// problems are the errors of a file.
type problems []problem

type problem struct {
	file string
	line int
	text string
}

func (p *problems) add(d *documents.Document, path, text string) {
	line := d.Line
	if path != "" {
		line, text = d.LineOf(path), path+": "+text
	}
	*p = append(*p, problem{d.File, line, cli.OneLine(text)})
}

// refuse shows the errors, in the order of their lines. Nothing has been written.
func (p problems) refuse(out *cli.Output, file string) error {
	slices.SortStableFunc(p, func(a, b problem) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line)) })
	for i, one := range p {
		if i == maxProblems {
			fmt.Fprintf(out.Stderr, "and %d more\n", len(p)-i)
			break
		}
		fmt.Fprintf(cli.Printable{To: out.Stderr}, "%s:%d: error: %s\n", one.file, one.line, one.text)
	}
	return fmt.Errorf("%s in %s; nothing was written", cli.Plural(len(p), "error"), file)
}

// secret is a Secret as far as it can be a credential: no other field is accepted.
type secret struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Type      string            `json:"type"`
	Data      map[string][]byte `json:"data"`
	Immutable *bool             `json:"immutable,omitempty"`
}

// decode reads the clusters of a file in its order, and finds what is wrong with the file by itself.
func decode(docs []*documents.Document) ([]*entry, problems) {
	var wrong problems
	var entries []*entry
	secrets := map[v1alpha1.NamespacedName]*documents.Document{}
	for _, d := range docs {
		switch {
		case d.Err != nil:
			wrong.add(d, "", d.Err.Error())
		case len(d.JSON) > maxObject:
			wrong.add(d, "", fmt.Sprintf("the object is larger than %d KiB", maxObject>>10))
		case d.Object.GroupVersionKind() == v1alpha1.SchemeGroupVersion.WithKind("Cluster"):
			wrong.check(d, &v1alpha1.Cluster{})
			entries = append(entries, &entry{cluster: d})
		case d.Object.GroupVersionKind() == schema.GroupVersionKind{Version: "v1", Kind: "Secret"}:
			key := v1alpha1.NamespacedName{Name: d.Object.GetName(), Namespace: d.Object.GetNamespace()}
			if first := secrets[key]; first != nil {
				wrong.add(d, "metadata.name", fmt.Sprintf("Secret %s/%s is in the file twice, first in line %d", key.Namespace, key.Name, first.Line))
			}
			secrets[key] = d
			wrong.checkCredential(d)
		default:
			gvk := d.Object.GroupVersionKind()
			wrong.add(d, "", fmt.Sprintf("apiVersion %q, kind %q cannot be imported: only Cluster of %s, and Secret of v1", gvk.GroupVersion(), gvk.Kind, v1alpha1.SchemeGroupVersion))
		}
	}
	wrong.join(entries, secrets)
	return entries, wrong
}

// check reads an object strictly.
func (p *problems) check(d *documents.Document, into any) (ok bool) {
	before := len(*p)
	errs, _ := d.Decode(into)
	for _, e := range errs {
		p.add(d, e.Field, e.ErrorBody())
	}
	if msgs := validation.NameIsDNSSubdomain(d.Object.GetName(), false); len(msgs) > 0 {
		p.add(d, "metadata.name", msgs[0])
	}
	return len(*p) == before
}

// checkCredential never quotes what the Secret holds.
func (p *problems) checkCredential(d *documents.Document) {
	var s secret
	if !p.check(d, &s) {
		return
	}
	kubeconfig, err := clusters.KubeconfigOf(d.Object)
	if err == nil {
		_, err = kube.ParseKubeconfig(kubeconfig)
	}
	if err != nil {
		p.add(d, "", "Secret "+s.Name+": "+err.Error())
	}
	if len(s.Data) > 1 {
		p.add(d, "data", "a credential has the key "+v1alpha1.SecretKubeconfigKey+", and no other")
	}
}

// join gives each cluster its Secret, and refuses what is there twice, or is nobody's.
func (p *problems) join(entries []*entry, secrets map[v1alpha1.NamespacedName]*documents.Document) {
	names, ids, used, taken := map[string]int{}, map[string]int{}, map[*documents.Document]bool{}, map[string]string{}
	for _, e := range entries {
		name, id := e.cluster.Object.GetName(), e.id()
		if line, twice := names[name]; twice {
			p.add(e.cluster, "metadata.name", fmt.Sprintf("cluster %s is in the file twice, first in line %d", name, line))
		}
		if line, twice := ids[id]; twice && id != "" {
			p.add(e.cluster, "spec.clusterID", fmt.Sprintf("another cluster of the file has it, in line %d", line))
		}
		names[name], ids[id] = e.cluster.Line, e.cluster.Line
		ref := clusters.SecretRef(e.cluster.Object)
		if e.secret = secrets[ref]; e.secret == nil {
			continue
		}
		// All Secrets come into one namespace.
		if other, twice := taken[ref.Name]; twice {
			p.add(e.cluster, "spec.authInfo.secretRef.name", fmt.Sprintf("cluster %s of the file names a Secret %s as well", other, ref.Name))
		}
		used[e.secret], taken[ref.Name] = true, name
	}
	for _, d := range slices.SortedFunc(maps.Values(secrets), func(a, b *documents.Document) int { return cmp.Compare(a.Line, b.Line) }) {
		if !used[d] {
			p.add(d, "", "no Cluster of the file names this Secret in spec.authInfo.secretRef")
		}
	}
}
