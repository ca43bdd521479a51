// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rights"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const (
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"

	namePrefix = "roster-verify-"
	// labelCanary marks what this command has made, in the cluster where it has: it does not go to others.
	labelCanary = v1alpha1.LocalPrefix + "verify"
	// annotationUntil is until when it may be there, by the API server's clock.
	annotationUntil = v1alpha1.LocalPrefix + "verify-until"

	// cleanWithin is how long the end may take, in which all is deleted.
	cleanWithin = 20 * time.Second
	steps       = 4
	// spare is for what is between the steps, and for a clock that counts in seconds.
	spare = time.Minute
)

// canary is an object, and the rule that copies it.
type canary struct {
	own         *clusters.Client
	cluster, id string          // of the cluster where it is made
	members     map[string]bool // clusterIDs of the group
	name        string
	namespace   string
	kind        string
	now, read   time.Time     // of the API server's clock when the command began, and of the own one then
	within      time.Duration // that all steps take, with every request of theirs
	rule        made
	object      made
}

// made is what is known of something that this run makes.
type made struct {
	uid      types.UID // "" before the API server has said it
	doubtful bool      // it may be there: the API server did not say
}

// of is what the answer to a request to make something tells.
func (m *made) of(u *unstructured.Unstructured, err error) {
	if err == nil {
		*m = made{uid: u.GetUID()}
		return
	}
	refused, ok := errors.AsType[*apierrors.StatusError](err)
	*m = made{doubtful: !ok || refused.ErrStatus.Code < 400 || refused.ErrStatus.Code >= 500 || apierrors.IsAlreadyExists(err)}
}

// newCanary makes the object on trial, which shows that it may be made, and what time it is there. Nothing is written.
func newCanary(ctx context.Context, own *clusters.Client, o *Options) (*canary, error) {
	local, err := own.Local(ctx)
	if err != nil {
		return nil, err
	}
	members, err := own.MemberObjects(ctx)
	if err != nil {
		return nil, err
	}
	random := make([]byte, 5)
	_, _ = rand.Read(random) // never fails
	k := &canary{
		own: own, cluster: local.GetName(), id: clusters.IDOf(local), members: map[string]bool{},
		name: namePrefix + hex.EncodeToString(random), namespace: o.Namespace, kind: o.Kind,
	}
	for i := range members {
		k.members[clusters.IDOf(&members[i])] = true
	}
	if err := k.checkRights(ctx, o.Clean); err != nil || o.Clean {
		return k, err
	}
	trial, err := k.objects(o.Kind).Create(ctx, k.content("0"), onTrial(creating()))
	if err != nil {
		return nil, own.Errorf("make a %s in namespace %s, on trial: %w", o.Kind, o.Namespace, err)
	}
	k.now, k.read = trial.GetCreationTimestamp().Time, time.Now()
	k.within = steps*(own.Config.Timeout+o.Timeout+askWithin) + cleanWithin + spare
	return k, nil
}

// checkRights returns an error that names all that are missing, before anything is written.
func (k *canary) checkRights(ctx context.Context, clean bool) error {
	needed := append(rights.Of(clusters.RuleResource(), "", "create", "delete"), rights.Of(resourceOf(k.kind), k.namespace, "create", "patch", "delete")...)
	if clean {
		needed = rights.Of(clusters.RuleResource(), "", "list", "delete")
	}
	lacks, err := rights.Missing(ctx, k.own, needed)
	if err != nil {
		return k.own.Errorf("ask for rights: %s", clusters.Reason(err))
	}
	if len(lacks) > 0 {
		return k.own.Errorf("you may not %s; nothing was changed", strings.Join(lacks, ", "))
	}
	return nil
}

// creating has the API server refuse what it does not know: without its targets, the rule would be for all clusters.
func creating() metav1.CreateOptions {
	return metav1.CreateOptions{FieldManager: clusters.FieldManager, FieldValidation: metav1.FieldValidationStrict}
}

func onTrial(o metav1.CreateOptions) metav1.CreateOptions {
	o.DryRun = []string{metav1.DryRunAll}
	return o
}

// objects are those of a kind that canaries are of.
func (k *canary) objects(kind string) dynamic.ResourceInterface {
	return k.own.Dynamic.Resource(resourceOf(kind)).Namespace(k.namespace)
}

func resourceOf(kind string) schema.GroupVersionResource {
	return clusters.Core(strings.ToLower(kind) + "s")
}

func (k *canary) rules() dynamic.ResourceInterface {
	return k.own.Dynamic.Resource(clusters.RuleResource())
}

// marked is an object of this run.
func (k *canary) marked(apiVersion, kind string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetName(k.name)
	u.SetLabels(map[string]string{labelCanary: "canary"})
	u.SetAnnotations(map[string]string{annotationUntil: k.until().UTC().Format(time.RFC3339)})
	return u
}

// until is when a run is over for certain that makes something now.
func (k *canary) until() time.Time { return k.now.Add(time.Since(k.read) + k.within) }

// content is the object with a number.
func (k *canary) content(number string) *unstructured.Unstructured {
	u := k.marked("v1", k.kind)
	u.SetNamespace(k.namespace)
	u.Object["data"] = map[string]any{"number": k.encoded(number)}
	return u
}

func (k *canary) encoded(number string) string {
	if k.kind == kindSecret {
		return base64.StdEncoding.EncodeToString([]byte(number))
	}
	return number
}

// ruleFor copies the object to the clusters of these names. When it is deleted, so are its copies.
func (k *canary) ruleFor(names []string) *unstructured.Unstructured {
	u := k.marked(v1alpha1.SchemeGroupVersion.String(), "ResourceSyncRule")
	targets := make([]any, 0, len(names))
	for _, name := range names {
		targets = append(targets, name)
	}
	key := map[string]any{"name": k.name, "namespace": k.namespace}
	u.Object["spec"] = map[string]any{
		"groupVersionKind":   map[string]any{"version": "v1", "kind": k.kind},
		"rules":              []any{map[string]any{"match": []any{map[string]any{"objectKey": key}}}},
		"targets":            map[string]any{"names": targets},
		"ruleDeletionPolicy": string(v1alpha1.DeletionDelete),
	}
	return u
}

func namesOf(sites []*site) []string {
	var out []string
	for _, s := range sites {
		out = append(out, s.Cluster)
	}
	return out
}

// tryRule makes the rule on trial.
func (k *canary) tryRule(ctx context.Context, sites []*site) error {
	_, err := k.rules().Create(ctx, k.ruleFor(namesOf(sites)), onTrial(creating()))
	if err != nil {
		return k.own.Errorf("make a rule, on trial: %w", err)
	}
	return nil
}

func (k *canary) makeRule(ctx context.Context, sites []*site) error {
	u, err := k.rules().Create(ctx, k.ruleFor(namesOf(sites)), creating())
	k.rule.of(u, err)
	if err != nil {
		return k.own.Errorf("make the rule %s: %w", k.name, err)
	}
	return nil
}

func (k *canary) create(ctx context.Context) error {
	u, err := k.objects(k.kind).Create(ctx, k.content("1"), creating())
	k.object.of(u, err)
	if err != nil {
		return k.own.Errorf("make the %s %s: %w", k.kind, k.name, err)
	}
	return nil
}

func (k *canary) update(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"data":{"number":%q}}`, k.object.uid, k.encoded("2"))
	_, err := k.objects(k.kind).Patch(ctx, k.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: clusters.FieldManager})
	if err != nil {
		return k.own.Errorf("change the %s %s: %w", k.kind, k.name, err)
	}
	return nil
}

func (k *canary) delete(ctx context.Context) error {
	if err := k.remove(ctx, k.objects(k.kind), k.object); err != nil {
		return k.own.Errorf("delete the %s %s: %w", k.kind, k.name, err)
	}
	return nil
}

// remove deletes what this run has made. It is not read before: who may make it may not be allowed to, and it would take time.
func (k *canary) remove(ctx context.Context, objects dynamic.ResourceInterface, m made) error {
	switch {
	case m.uid != "":
		return deleteThis(ctx, objects, k.name, m.uid)
	case m.doubtful:
		return discard(ctx, objects, k.name)
	}
	return nil
}

// discard deletes an object that a canary is of.
func (k *canary) discard(ctx context.Context, kind, namespace, name string) error {
	return discard(ctx, k.own.Dynamic.Resource(resourceOf(kind)).Namespace(namespace), name)
}

// discard deletes what this command has made, if it is there, and nothing else.
func discard(ctx context.Context, objects dynamic.ResourceInterface, name string) error {
	there, err := objects.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !isCanary(there) {
		return errors.New("somebody else has made it")
	}
	return deleteThis(ctx, objects, name, there.GetUID())
}

// deleteThis deletes the object with this UID, if it is there.
func deleteThis(ctx context.Context, objects dynamic.ResourceInterface, name string, uid types.UID) error {
	err := objects.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// isCanary says that this command has made an object, in the cluster where it is.
func isCanary(u *unstructured.Unstructured) bool {
	_, copied := u.GetAnnotations()[v1alpha1.AnnotationOwnerClusterID]
	return u.GetLabels()[labelCanary] == "canary" && strings.HasPrefix(u.GetName(), namePrefix) && !copied
}

// sweep deletes what runs have left that were killed: what may not be there any more, or with all whatever is there. It returns
// what that is, in order, and an error for what cannot be deleted. The rule is made first and deleted last, so it tells of every object that is left.
func (k *canary) sweep(ctx context.Context, all, dryRun bool) ([]string, error) {
	list, err := k.rules().List(ctx, metav1.ListOptions{LabelSelector: labelCanary + "=canary"})
	if err != nil {
		return nil, k.own.Errorf("look for what earlier runs have left: %w", err)
	}
	removed, errs := []string{}, []error{}
	for i := range list.Items {
		u := &list.Items[i]
		until, err := time.Parse(time.RFC3339, u.GetAnnotations()[annotationUntil])
		if !isCanary(u) || !all && (err != nil || !k.now.After(until)) {
			continue
		}
		if dryRun {
			removed = append(removed, u.GetName())
			continue
		}
		err = nil
		if kind, namespace := objectOf(u); kind != "" {
			err = k.discard(ctx, kind, namespace, u.GetName())
		}
		if err == nil {
			err = discard(ctx, k.rules(), u.GetName())
		}
		if err != nil {
			errs = append(errs, k.own.Errorf("delete %s, which an earlier run has left: %w", u.GetName(), err))
			continue
		}
		removed = append(removed, u.GetName())
	}
	slices.Sort(removed)
	return removed, errors.Join(errs...)
}

// objectOf is what the rule of a canary copies; "" for nothing that this command could have made.
func objectOf(u *unstructured.Unstructured) (kind, namespace string) {
	var rule v1alpha1.ResourceSyncRule
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &rule) != nil || len(rule.Spec.Rules) != 1 || len(rule.Spec.Rules[0].Matches) != 1 {
		return "", ""
	}
	kind, key := rule.Spec.GVK.Kind, rule.Spec.Rules[0].Matches[0].ObjectKey
	if key == nil || kind != kindSecret && kind != kindConfigMap {
		return "", ""
	}
	return kind, key.Namespace
}
