// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/registry"
)

// writesTried bounds how often a write begins anew because the stored Cluster has changed meanwhile.
const writesTried = 8

// errChanged says that the stored Cluster has changed since it was read.
var errChanged = errors.New("the Cluster has changed")

// Create implements rest.Creater.
func (s *store) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	who, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	v, ok := obj.(*view.Cluster)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Cluster: %T", obj))
	}
	if v.ResourceVersion != "" {
		return nil, apierrors.NewBadRequest("metadata.resourceVersion must not be set on an object that is created")
	}
	v.Status = view.ClusterStatus{}
	if err := invalid(v, nil); err != nil {
		return nil, err
	}
	stored, err := registry.ToCluster(&v1alpha1.Cluster{}, v)
	if err != nil {
		return nil, tooLong(v.Name, err)
	}
	if err := s.mayWrite(ctx, who, change{verb: "create", after: stored}); err != nil {
		return nil, err
	}
	if validate != nil {
		if err := validate(ctx, v.DeepCopy()); err != nil {
			return nil, err
		}
	}
	warn(ctx, v, nil)
	options := &metav1.CreateOptions{DryRun: o.DryRun, FieldManager: fieldManager}
	out, err := written(ctx, once(s.o.Clusters.RESTClient().Post(), options).Body(stored))
	if err != nil {
		return nil, s.behind(err)
	}
	return registry.FromCluster(out), nil
}

// Update implements rest.Updater. A name that is free is created, as one that is hidden would be: the API server behind says
// that it is taken.
func (s *store) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	w := writing{Server: s.Server, name: name, info: info, validate: update, dryRun: o.DryRun}
	out, err := w.run(ctx)
	if err == nil || !apierrors.IsNotFound(err) {
		return out, false, err
	}
	if p := info.Preconditions(); p != nil && (p.UID != nil || p.ResourceVersion != nil) {
		return nil, false, err
	}
	obj, newErr := info.UpdatedObject(ctx, &view.Cluster{})
	if newErr != nil {
		return nil, false, newErr
	}
	v, ok := obj.(*view.Cluster)
	switch {
	case !ok || v.Name != name:
		return nil, false, apierrors.NewBadRequest(fmt.Sprintf("metadata.name must be %q, as in the URL", name))
	case v.ResourceVersion != "" || v.UID != "":
		return nil, false, conflict(name, "it does not exist any more: leave out metadata.resourceVersion and metadata.uid to create it anew")
	}
	made, createErr := s.Create(ctx, v, create, &metav1.CreateOptions{DryRun: o.DryRun})
	if apierrors.IsForbidden(createErr) {
		return nil, false, err // as for one that is hidden
	}
	return made, createErr == nil, createErr
}

// Delete implements rest.GracefulDeleter. What is deleted is what the rights were asked for.
func (s *store) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	who, err := caller(ctx)
	if err != nil {
		return nil, false, err
	}
	for range writesTried {
		have, err := s.visible(ctx, name, metav1.GetOptions{})
		if have == nil {
			return nil, false, err
		}
		if err := s.mayWrite(ctx, who, change{verb: "delete", before: have}); err != nil {
			return nil, false, err
		}
		v := registry.FromCluster(have)
		if validate != nil {
			if err := validate(ctx, v.DeepCopy()); err != nil {
				return nil, false, err
			}
		}
		options := o.DeepCopy()
		if options == nil {
			options = &metav1.DeleteOptions{}
		}
		given := options.Preconditions
		if given != nil && (given.UID != nil && *given.UID != have.UID || given.ResourceVersion != nil && *given.ResourceVersion != have.ResourceVersion) {
			return nil, false, conflict(name, "it is not the one that the preconditions name")
		}
		options.Preconditions = &metav1.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion}
		options.TypeMeta = metav1.TypeMeta{}
		err = once(s.o.Clusters.RESTClient().Delete(), &metav1.DeleteOptions{}).Name(name).Body(options).Do(ctx).Error()
		switch {
		case err == nil:
			return v, len(have.Finalizers) == 0, nil
		case !apierrors.IsConflict(err):
			return nil, false, s.behind(err)
		}
	}
	return nil, false, conflict(name, errChanged.Error())
}

// statusStore is clusters/status.
type statusStore struct{ *Server }

var _ rest.Patcher = &statusStore{}

// New implements rest.Storage.
func (s *statusStore) New() runtime.Object { return &view.Cluster{} }

// Destroy implements rest.Storage.
func (s *statusStore) Destroy() {}

// Get implements rest.Getter.
func (s *statusStore) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	return (&store{s.Server}).Get(ctx, name, o)
}

// Update implements rest.Updater.
func (s *statusStore) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	w := writing{Server: s.Server, name: name, subresource: subStatus, info: info, validate: update, dryRun: o.DryRun}
	out, err := w.run(ctx)
	return out, false, err
}

// ConvertToTable implements rest.TableConvertor.
func (s *statusStore) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return (&store{s.Server}).ConvertToTable(ctx, obj, options)
}

// writing is one change of a Cluster that exists.
type writing struct {
	*Server

	name        string
	subresource string // empty or status
	info        rest.UpdatedObjectInfo
	validate    rest.ValidateObjectUpdateFunc
	dryRun      []string
}

// run reads, asks, changes and writes, and begins anew when somebody else has written meanwhile.
func (w *writing) run(ctx context.Context) (runtime.Object, error) {
	who, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	for range writesTried {
		have, err := w.visible(ctx, w.name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		out, err := w.once(ctx, who, have)
		if !errors.Is(err, errChanged) {
			return out, err
		}
	}
	return nil, conflict(w.name, errChanged.Error())
}

// once writes over the version have.
func (w *writing) once(ctx context.Context, who user.Info, have *v1alpha1.Cluster) (runtime.Object, error) {
	old := registry.FromCluster(have)
	if p := w.info.Preconditions(); p != nil && (p.UID != nil && *p.UID != have.UID || p.ResourceVersion != nil && *p.ResourceVersion != have.ResourceVersion) {
		return nil, conflict(w.name, "it is not the one that the preconditions name")
	}
	obj, err := w.info.UpdatedObject(ctx, old.DeepCopy())
	if err != nil {
		return nil, err
	}
	v, ok := obj.(*view.Cluster)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Cluster: %T", obj))
	}
	if v.ResourceVersion != "" && v.ResourceVersion != have.ResourceVersion || v.UID != "" && v.UID != have.UID {
		return nil, conflict(w.name, "the object has been modified; please apply your changes to the latest version and try again")
	}
	v.UID, v.CreationTimestamp, v.ResourceVersion, v.Generation = have.UID, have.CreationTimestamp, have.ResourceVersion, have.Generation
	var after *v1alpha1.Cluster
	if w.subresource == subStatus {
		status := v.Status
		v = old.DeepCopy()
		v.Status = status
		after = registry.ToClusterStatus(have, v, metav1.Now())
	} else {
		v.Status = *old.Status.DeepCopy()
		if after, err = registry.ToCluster(have, v); err != nil {
			return nil, tooLong(w.name, err)
		}
	}
	if err := invalid(v, old); err != nil {
		return nil, err
	}
	if err := w.mayWrite(ctx, who, change{verb: verb(ctx), subresource: w.subresource, before: have, after: after}); err != nil {
		return nil, err
	}
	if w.validate != nil {
		if err := w.validate(ctx, v.DeepCopy(), old); err != nil {
			return nil, err
		}
	}
	warn(ctx, v, old)
	return w.patch(ctx, have, after)
}

// verb is update or patch, whichever the caller was let through for.
func verb(ctx context.Context) string {
	if info, ok := genericapirequest.RequestInfoFrom(ctx); ok && info.Verb == "patch" {
		return info.Verb
	}
	return "update"
}

// patch writes what differs, and only over the version have. So what the stored Cluster has that this program does not know,
// as a later one added it, stays, but for what is in entries of a list that changes; and a write that changes nothing is none.
func (w *writing) patch(ctx context.Context, have, after *v1alpha1.Cluster) (runtime.Object, error) {
	before, err := json.Marshal(have)
	if err != nil {
		return nil, err
	}
	wanted, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	diff, err := jsonpatch.CreateMergePatch(before, wanted)
	if err != nil {
		return nil, err
	}
	if string(diff) == "{}" {
		return registry.FromCluster(have), nil
	}
	var fields map[string]any
	if err := json.Unmarshal(diff, &fields); err != nil {
		return nil, err
	}
	metadata, ok := fields["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		fields["metadata"] = metadata
	}
	metadata["resourceVersion"], metadata["uid"] = have.ResourceVersion, have.UID
	if diff, err = json.Marshal(fields); err != nil {
		return nil, err
	}
	options := &metav1.PatchOptions{DryRun: w.dryRun, FieldManager: fieldManager}
	out, err := written(ctx, once(w.o.Clusters.RESTClient().Patch(types.MergePatchType), options).Name(w.name).SubResource(w.subresource).Body(diff))
	switch {
	case apierrors.IsConflict(err):
		return nil, errChanged
	case err != nil:
		return nil, w.behind(err)
	}
	return registry.FromCluster(out), nil
}

// invalid returns what is wrong with a view, of which old is the present state.
func invalid(v, old *view.Cluster) error {
	if errs := view.Validate(v, old); len(errs) > 0 {
		return apierrors.NewInvalid(view.Kind("Cluster"), v.Name, errs)
	}
	return nil
}

// tooLong returns an error of the conversion as one about its field.
func tooLong(name string, err error) error {
	return apierrors.NewInvalid(view.Kind("Cluster"), name, field.ErrorList{
		field.Forbidden(field.NewPath("metadata", "managedFields"), err.Error()),
	})
}

func warn(ctx context.Context, v, old *view.Cluster) {
	for _, text := range view.Warnings(v, old) {
		warning.AddWarning(ctx, "", text)
	}
}

func sameSpec(a, b *v1alpha1.Cluster) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) }
