// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	etcdclient "go.etcd.io/etcd/client/v3/kubernetes"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/registry/generic"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/roster-mesh/roster/kube/apiserver/datadir"
	"github.com/roster-mesh/roster/kube/apiserver/etcd"
)

const (
	// resourcePrefix is where the suite keeps its objects.
	resourcePrefix = "/pods/"
	// within bounds what is waited for, on a busy machine.
	within = 2 * time.Minute
)

// storeOptions say how a store differs from that of the server's Secrets.
type storeOptions struct {
	cached        bool // behind the watch cache
	json          bool // stored as objects of a CRD are, not in protobuf
	clusterScoped bool // the watch cache knows no namespaces
	indexed       bool // the watch cache has an index by node and by namespace, as that of pods
	noPrefix      bool // keys do not begin with /registry, as the suite expects to see them in errors
	byHand        bool // made without the server's factory, which lets nobody count requests and marks all errors
}

// store is a store as the server opens it, with what the suite does to it from behind.
type store struct {
	storage.Interface

	options     storeOptions
	codec       runtime.Codec
	client      *etcdclient.Client                 // of the same etcd
	recorder    *storagetesting.KubernetesRecorder // of lists that the client is asked for
	transformer *exchangeable
	rest        generic.RESTOptions
	closed      func() // closes the open store
}

// open starts an etcd and opens a store on it. Both end with the test.
func open(t *testing.T, o storeOptions) *store {
	t.Helper()
	dir, err := datadir.Open(t.Context(), t.TempDir(), "v1.2.3", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	encryption, err := dir.EnsureEncryption()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	server, err := etcd.Start(ctx, etcd.Options{Dir: dir.Path("etcd"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	s := &store{options: o, codec: codec(t, o.json)}
	s.connect(t, server.Endpoint())
	// These are the server's own options.
	p := &process{encryption: encryption, dir: dir, store: server}
	s.configure(t, p.options(nil).Etcd)
	s.reopen(t)
	t.Cleanup(func() { s.closed() })
	return s
}

// codec writes and reads the suite's objects.
func codec(t *testing.T, json bool) runtime.Codec {
	t.Helper()
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	if err := errors.Join(example.AddToScheme(scheme), examplev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme)
	if json {
		return codecs.LegacyCodec(examplev1.SchemeGroupVersion)
	}
	stored := protobuf.NewSerializer(scheme, scheme)
	return codecs.CodecForVersions(stored, stored, schema.GroupVersions{examplev1.SchemeGroupVersion}, nil)
}

// connect makes a client for what the suite does in etcd, beside the one that the server makes for its store.
func (s *store) connect(t *testing.T, endpoint string) {
	t.Helper()
	var err error
	if s.client, err = etcdclient.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.client.Close() })
	s.recorder = storagetesting.NewKubernetesRecorder(s.client.Kubernetes)
	s.client.KV = storagetesting.NewKVRecorder(s.client.KV, s.recorder)
	s.client.Kubernetes = s.recorder
}

// configure takes the options through the same steps as the server does. The suite's objects are stored as Secrets are,
// which the server encrypts.
func (s *store) configure(t *testing.T, o *genericoptions.EtcdOptions) {
	t.Helper()
	o.EnableWatchCache = s.options.cached
	o.StorageConfig.Codec = s.codec
	if s.options.noPrefix {
		o.StorageConfig.Prefix = ""
	}
	encryption, err := encryptionconfig.LoadEncryptionConfig(t.Context(), o.EncryptionProviderConfigFilepath, false, "")
	if err != nil {
		t.Fatal(err)
	}
	stores := &genericoptions.SimpleStorageFactory{StorageConfig: o.StorageConfig}
	getter := o.CreateRESTOptionsGetter(stores, encryptionconfig.StaticTransformers(encryption.Transformers))
	if s.rest, err = getter.GetRESTOptions(schema.GroupResource{Resource: "secrets"}, nil); err != nil {
		t.Fatal(err)
	}
	s.transformer = newExchangeable(s.rest.StorageConfig.Transformer)
	s.rest.StorageConfig.Transformer = s.transformer
}

// reopen opens the store, and closes the one that was open, as when a server starts again.
func (s *store) reopen(t *testing.T) {
	t.Helper()
	if s.closed != nil {
		s.closed()
	}
	key := func(object runtime.Object) (string, error) {
		if s.options.clusterScoped {
			return storage.NoNamespaceKeyFunc(resourcePrefix, object)
		}
		return storage.NamespaceKeyFunc(resourcePrefix, object)
	}
	var triggers storage.IndexerFuncs
	var indexers *cache.Indexers
	if s.options.indexed {
		triggers = storage.IndexerFuncs{"spec.nodeName": func(object runtime.Object) string { return object.(*example.Pod).Spec.NodeName }}
		indexers = &cache.Indexers{
			"f:spec.nodeName":      func(object any) ([]string, error) { return []string{object.(*example.Pod).Spec.NodeName}, nil },
			"f:metadata.namespace": func(object any) ([]string, error) { return []string{object.(*example.Pod).Namespace}, nil },
		}
	}
	decorator := s.rest.Decorator
	if s.options.byHand {
		decorator = s.decorateByHand
	}
	opened, destroy, err := decorator(s.rest.StorageConfig, resourcePrefix, key, newPod, newPodList, attributes, triggers, indexers)
	if err != nil {
		t.Fatal(err)
	}
	s.Interface, s.closed = opened, destroy
	// Before the watch cache is filled it refuses what the suite asks for.
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, within, true, func(context.Context) (bool, error) {
		return opened.ReadinessCheck() == nil, nil
	})
	if err != nil {
		t.Fatalf("the watch cache is not filled: %v", err)
	}
}

func newPod() runtime.Object     { return &example.Pod{} }
func newPodList() runtime.Object { return &example.PodList{} }

// attributes are what selectors see of a pod.
func attributes(object runtime.Object) (labels.Set, fields.Set, error) {
	pod, ok := object.(*example.Pod)
	if !ok {
		return nil, nil, fmt.Errorf("%T is no pod", object)
	}
	return pod.Labels, fields.Set{
		"metadata.name":      pod.Name,
		"metadata.namespace": pod.Namespace,
		"spec.nodeName":      pod.Spec.NodeName,
		"spec.restartPolicy": string(pod.Spec.RestartPolicy),
		"status.phase":       string(pod.Status.Phase),
	}, nil
}

// decorateByHand opens the store on the client that counts. It is a generic.StorageDecorator.
func (s *store) decorateByHand(
	c *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
	attrs storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	versioner := storage.APIObjectVersioner{}
	compactor := etcd3.NewCompactor(s.client.Client, 0, clock.RealClock{}, nil)
	raw, err := etcd3.New(s.client, compactor, c.Codec, newFunc, newListFunc, c.Prefix, prefix, c.GroupResource, c.Transformer,
		c.LeaseManagerConfig, etcd3.NewDefaultDecoder(c.Codec, versioner), versioner)
	if err != nil {
		return nil, nil, err
	}
	opened := etcd3.NewStoreWithUnsafeCorruptObjectDeletion(raw, c.GroupResource)
	destroy := func() {
		raw.Close()
		compactor.Stop()
	}
	if !s.options.cached {
		return opened, destroy, nil
	}
	cached, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: opened, Versioner: versioner, GroupResource: c.GroupResource, EventsHistoryWindow: c.EventsHistoryWindow,
		ResourcePrefix: prefix, KeyFunc: key, NewFunc: newFunc, NewListFunc: newListFunc, GetAttrsFunc: attrs,
		IndexerFuncs: triggers, Indexers: indexers, Codec: c.Codec,
	})
	if err != nil {
		return nil, nil, err
	}
	delegator := cacher.NewCacheDelegator(cached, opened)
	return delegator, func() {
		delegator.Stop()
		cached.Stop()
		destroy()
	}, nil
}

// etcdKey is where etcd has what the suite knows by key.
func (s *store) etcdKey(key string) string { return path.Join("/", s.rest.StorageConfig.Prefix, key) }

// validate is a storagetesting.KeyValidation: what etcd has of an object is encrypted, and has no version and no link.
func (s *store) validate(ctx context.Context, t *testing.T, key string) {
	t.Helper()
	found, err := s.client.KV.Get(ctx, s.etcdKey(key))
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Kvs) != 1 {
		t.Fatalf("etcd has %d values for %s", len(found.Kvs), key)
	}
	stored := found.Kvs[0].Value
	if !bytes.HasPrefix(stored, []byte("k8s:enc:secretbox:v1:key1:")) {
		t.Errorf("%s is not encrypted: %.40q", key, stored)
	}
	data, _, err := s.transformer.TransformFromStorage(ctx, stored, value.DefaultContext(found.Kvs[0].Key))
	if err != nil {
		t.Fatal(err)
	}
	object, err := runtime.Decode(s.codec, data)
	if err != nil {
		t.Fatal(err)
	}
	m, err := meta.Accessor(object)
	if err != nil {
		t.Fatal(err)
	}
	if m.GetResourceVersion() != "" || m.GetSelfLink() != "" {
		t.Errorf("%s is stored with resourceVersion %q and selfLink %q", key, m.GetResourceVersion(), m.GetSelfLink())
	}
}

// keys is a storage.KeysFunc.
func (s *store) keys(ctx context.Context) ([]string, error) {
	found, err := s.client.KV.Get(ctx, s.etcdKey(resourcePrefix)+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, kv := range found.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys, nil
}

// increase is a storagetesting.IncreaseRVFunc: something else is written to etcd.
func (s *store) increase(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	written, err := s.client.Put(ctx, "something else", "")
	if err != nil {
		t.Fatal(err)
	}
	return written.Header.Revision
}

// compactEtcd does what one of several API servers does every five minutes.
func (s *store) compactEtcd(ctx context.Context, t *testing.T, resourceVersion string) (revision int64) {
	t.Helper()
	parsed, err := s.Versioner().ParseResourceVersion(resourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	for version, done := int64(0), int64(0); done < int64(parsed); { // the first time only says which version there is
		if version, _, done, err = etcd3.Compact(ctx, s.client.Client, version, int64(parsed)); err != nil {
			t.Fatal(err)
		}
	}
	return int64(parsed)
}

// compact is a storagetesting.Compaction. It returns when the store has noticed; the watch cache looks every 15 s.
func (s *store) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	t.Helper()
	revision := s.compactEtcd(ctx, t, resourceVersion)
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, within, true, func(context.Context) (bool, error) {
		return s.CompactRevision() >= revision, nil
	})
	if err != nil {
		t.Fatalf("the store does not notice that etcd was compacted at %d: %v", revision, err)
	}
}

// forget is a storagetesting.Compaction for watches, of which nobody is open. The watch cache keeps events that etcd has
// compacted; it forgets them when the server starts again.
func (s *store) forget(ctx context.Context, t *testing.T, resourceVersion string) {
	t.Helper()
	if !s.options.cached {
		s.compact(ctx, t, resourceVersion)
		return
	}
	s.compactEtcd(ctx, t, resourceVersion)
	s.reopen(t)
}

// UpdatePrefixTransformer exchanges what is above the encryption, until the returned function is called.
func (s *store) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	return s.transformer.exchange(modify(newPrefixTransformer()))
}

// UpdateTransformer is UpdatePrefixTransformer for any transformer.
func (s *store) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	return s.transformer.exchange(modify(*s.transformer.above.Load()))
}

// exchangeable is the server's transformer with one above that can be exchanged in an open store.
type exchangeable struct {
	encryption value.Transformer
	above      atomic.Pointer[value.Transformer]
}

func newExchangeable(encryption value.Transformer) *exchangeable {
	e := &exchangeable{encryption: encryption}
	e.exchange(newPrefixTransformer())
	return e
}

func newPrefixTransformer() *storagetesting.PrefixTransformer {
	return storagetesting.NewPrefixTransformer([]byte("prefix!"), false)
}

// exchange returns what puts back the one before.
func (e *exchangeable) exchange(by value.Transformer) (revert func()) {
	before := e.above.Swap(&by)
	return func() { e.above.Store(before) }
}

// fail makes reading fail from now on, or not any more.
func (e *exchangeable) fail(on bool) {
	if on {
		e.exchange(unreadable{newPrefixTransformer()})
	} else {
		e.exchange(newPrefixTransformer())
	}
}

// TransformFromStorage implements value.Transformer.
func (e *exchangeable) TransformFromStorage(ctx context.Context, data []byte, at value.Context) ([]byte, bool, error) {
	data, stale, err := e.encryption.TransformFromStorage(ctx, data, at)
	if err != nil {
		return nil, false, err
	}
	data, alsoStale, err := (*e.above.Load()).TransformFromStorage(ctx, data, at)
	return data, stale || alsoStale, err
}

// TransformToStorage implements value.Transformer.
func (e *exchangeable) TransformToStorage(ctx context.Context, data []byte, at value.Context) ([]byte, error) {
	data, err := (*e.above.Load()).TransformToStorage(ctx, data, at)
	if err != nil {
		return nil, err
	}
	return e.encryption.TransformToStorage(ctx, data, at)
}

// unreadable fails to read.
type unreadable struct{ value.Transformer }

// TransformFromStorage implements value.Transformer.
func (unreadable) TransformFromStorage(context.Context, []byte, value.Context) ([]byte, bool, error) {
	return nil, false, errors.New("it cannot be read")
}

// corrupt is the error that a store has for an object that cannot be read, whose type is not exported.
func corrupt(ctx context.Context) error {
	_, _, err := etcd3.WithCorruptObjErrorHandlingTransformer(unreadable{}).TransformFromStorage(ctx, nil, nil)
	return err
}
