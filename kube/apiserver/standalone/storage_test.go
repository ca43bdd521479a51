// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

// Kubernetes tests its own storage with k8s.io/apiserver/pkg/storage/testing. That suite is what the rest of an API server
// takes for granted of storage.Interface: revisions without gaps, lists at old revisions, watches that miss nothing,
// updates that lose nothing, compaction. TestStorage runs all of it on the etcd that this process embeds, through the
// options with which the server opens its own storage: the unix socket, protobuf, and the key in the data directory that
// encrypts Secrets. Each function runs twice, on the store itself and behind the watch cache. So what is special here, an
// etcd in the same process with these settings, is held to what Kubernetes expects of any other.

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// suite is the package whose functions are run.
const suite = "k8s.io/apiserver/pkg/storage/testing"

// conformance is how one function of the suite is run.
type conformance struct {
	run  func(ctx context.Context, t *testing.T, s *store)
	with storeOptions // but for cached, which is as the run wants it
	// notPlain and notCached say why the function is not run on the store itself, or not behind the watch cache.
	notPlain, notCached string
	// gates are features that it needs to be off or on; changesGates says that it sets some itself. The gates belong to the
	// whole process, so nothing else runs at the same time.
	gates        featuregatetesting.FeatureOverrides
	changesGates bool
}

const (
	cacheHidesErrors = "the watch cache answers from what it has read before, and does not start with an object that cannot be read; the errors are the store's"
	cacheTakesThem   = "the watch cache asks for progress, and gives bookmarks to others: RunTestWatchDispatchBookmarkEvents"
	cacheBookmarks   = "the store sends no bookmarks by itself; the watch cache does"
)

// conformanceTests has every function of the suite, by its name.
func conformanceTests() map[string]conformance {
	all := reads()
	maps.Copy(all, writes())
	maps.Copy(all, lists())
	maps.Copy(all, watches())
	maps.Copy(all, malformed())
	return all
}

// plain is for the functions that want nothing but a store.
func plain(f func(context.Context, *testing.T, storage.Interface)) func(context.Context, *testing.T, *store) {
	return func(ctx context.Context, t *testing.T, s *store) { f(ctx, t, s) }
}

func reads() map[string]conformance {
	return map[string]conformance{
		"RunTestGet": {run: func(ctx context.Context, t *testing.T, s *store) {
			storagetesting.RunTestGet(ctx, t, lasting{s})
		}},
		"RunTestKeySchema": {run: plain(storagetesting.RunTestKeySchema)},
		"RunTestStats": {run: func(ctx context.Context, t *testing.T, s *store) {
			if !s.options.cached { // the watch cache does this itself
				if err := s.EnableResourceSizeEstimation(s.keys); err != nil {
					t.Fatal(err)
				}
			}
			storagetesting.RunTestStats(ctx, t, s, s.codec, s.transformer, true)
		}},
		"RunTestCompactRevision": {run: func(ctx context.Context, t *testing.T, s *store) {
			storagetesting.RunTestCompactRevision(ctx, t, s, s.increase, s.compact)
		}},
	}
}

func writes() map[string]conformance {
	return map[string]conformance{
		"RunTestCreate": {run: func(ctx context.Context, t *testing.T, s *store) {
			storagetesting.RunTestCreate(ctx, t, s, s.validate)
		}},
		"RunTestCreateWithTTL":                              {run: plain(storagetesting.RunTestCreateWithTTL)},
		"RunTestCreateWithKeyExist":                         {run: plain(storagetesting.RunTestCreateWithKeyExist)},
		"RunTestUnconditionalDelete":                        {run: plain(storagetesting.RunTestUnconditionalDelete)},
		"RunTestConditionalDelete":                          {run: plain(storagetesting.RunTestConditionalDelete)},
		"RunTestDeleteWithSuggestion":                       {run: plain(storagetesting.RunTestDeleteWithSuggestion)},
		"RunTestDeleteWithSuggestionAndConflict":            {run: plain(storagetesting.RunTestDeleteWithSuggestionAndConflict)},
		"RunTestDeleteWithConflict":                         {run: plain(storagetesting.RunTestDeleteWithConflict)},
		"RunTestDeleteWithSuggestionOfDeletedObject":        {run: plain(storagetesting.RunTestDeleteWithSuggestionOfDeletedObject)},
		"RunTestValidateDeletionWithSuggestion":             {run: plain(storagetesting.RunTestValidateDeletionWithSuggestion)},
		"RunTestValidateDeletionWithOnlySuggestionValid":    {run: plain(storagetesting.RunTestValidateDeletionWithOnlySuggestionValid)},
		"RunTestPreconditionalDeleteWithSuggestion":         {run: plain(storagetesting.RunTestPreconditionalDeleteWithSuggestion)},
		"RunTestPreconditionalDeleteWithOnlySuggestionPass": {run: plain(storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass)},
		"RunTestGuaranteedUpdate": {run: func(ctx context.Context, t *testing.T, s *store) {
			storagetesting.RunTestGuaranteedUpdate(ctx, t, s, s.validate)
		}},
		"RunTestGuaranteedUpdateWithTTL": {run: plain(storagetesting.RunTestGuaranteedUpdateWithTTL)},
		"RunTestGuaranteedUpdateChecksStoredData": {
			with: storeOptions{json: true}, // it writes the same object with a blank more, which protobuf does not allow
			run: func(ctx context.Context, t *testing.T, s *store) {
				storagetesting.RunTestGuaranteedUpdateChecksStoredData(ctx, t, s)
			},
		},
		"RunTestGuaranteedUpdateWithConflict":              {run: plain(storagetesting.RunTestGuaranteedUpdateWithConflict)},
		"RunTestGuaranteedUpdateWithSuggestionAndConflict": {run: plain(storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict)},
	}
}

func lists() map[string]conformance {
	return map[string]conformance{
		"RunTestList": {
			with: storeOptions{byHand: true}, // what the watch cache asks etcd for is counted
			run: func(ctx context.Context, t *testing.T, s *store) {
				storagetesting.RunTestList(ctx, t, s, s.compact, s.options.cached, s.recorder)
			},
		},
		"RunTestConsistentList": {run: func(ctx context.Context, t *testing.T, s *store) {
			storagetesting.RunTestConsistentList(ctx, t, s, s.increase, s.options.cached, true, utilfeature.DefaultFeatureGate.Enabled(features.ListFromCacheSnapshot))
		}},
		"RunTestGetListNonRecursive": {run: func(ctx context.Context, t *testing.T, s *store) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, s.increase, s)
		}},
		"RunTestGetListRecursivePrefix": {run: plain(storagetesting.RunTestGetListRecursivePrefix)},
		// The suite can also count requests to etcd here, as a cost that upstream watches. That is not what a store promises.
		"RunTestListContinuation": {run: func(ctx context.Context, t *testing.T, s *store) {
			storagetesting.RunTestListContinuation(ctx, t, s, nil)
		}},
		"RunTestListPaginationRareObject": {run: func(ctx context.Context, t *testing.T, s *store) {
			storagetesting.RunTestListPaginationRareObject(ctx, t, s, nil)
		}},
		"RunTestListContinuationWithFilter": {run: func(ctx context.Context, t *testing.T, s *store) {
			storagetesting.RunTestListContinuationWithFilter(ctx, t, s, nil)
		}},
		"RunTestListInconsistentContinuation": {
			run: func(ctx context.Context, t *testing.T, s *store) {
				storagetesting.RunTestListInconsistentContinuation(ctx, t, s, s.compact)
			},
			notCached: "it asks for pages of a list with resourceVersion 0, which the watch cache answers with the whole list",
		},
		"RunTestListResourceVersionMatch": {run: func(ctx context.Context, t *testing.T, s *store) {
			storagetesting.RunTestListResourceVersionMatch(ctx, t, s)
		}},
		"RunTestListPaging":          {run: plain(storagetesting.RunTestListPaging)},
		"RunTestNamespaceScopedList": {run: plain(storagetesting.RunTestNamespaceScopedList), with: storeOptions{indexed: true}},
	}
}

func watches() map[string]conformance {
	return map[string]conformance{
		"RunTestWatch": {run: plain(storagetesting.RunTestWatch)},
		"RunTestWatchFromZero": {run: func(ctx context.Context, t *testing.T, s *store) {
			storagetesting.RunTestWatchFromZero(ctx, t, s, s.forget)
		}},
		"RunTestDeleteTriggerWatch": {run: plain(storagetesting.RunTestDeleteTriggerWatch)},
		"RunTestWatchFromNonZero":   {run: plain(storagetesting.RunTestWatchFromNonZero)},
		"RunTestDelayedWatchDelivery": {run: func(ctx context.Context, t *testing.T, s *store) {
			storagetesting.RunTestDelayedWatchDelivery(ctx, t, delaying{s})
		}},
		"RunTestWatchContextCancel":                 {run: plain(storagetesting.RunTestWatchContextCancel)},
		"RunTestWatcherTimeout":                     {run: plain(storagetesting.RunTestWatcherTimeout)},
		"RunTestWatchDeleteEventObjectHaveLatestRV": {run: plain(storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV)},
		"RunTestWatchInitializationSignal": {run: func(ctx context.Context, t *testing.T, s *store) {
			storagetesting.RunTestWatchInitializationSignal(ctx, t, &lingering{Interface: s, t: t})
		}},
		"RunTestClusterScopedWatch":                 {run: plain(storagetesting.RunTestClusterScopedWatch), with: storeOptions{clusterScoped: true, indexed: true}},
		"RunTestNamespaceScopedWatch":               {run: plain(storagetesting.RunTestNamespaceScopedWatch), with: storeOptions{indexed: true}},
		"RunSendInitialEventsBackwardCompatibility": {run: plain(storagetesting.RunSendInitialEventsBackwardCompatibility)},
		"RunTestWatchDispatchBookmarkEvents": {run: func(ctx context.Context, t *testing.T, s *store) {
			patient := &lingering{Interface: s, t: t, bookmarked: s.options.cached}
			storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, patient, s.options.cached)
		}},
		"RunTestOptionalWatchBookmarksWithCorrectResourceVersion": {
			run: func(ctx context.Context, t *testing.T, s *store) {
				storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion(ctx, t, &settled{Interface: &lingering{Interface: s, t: t}})
			},
			notPlain: cacheBookmarks,
		},
		"RunOptionalTestProgressNotify": {
			run: func(ctx context.Context, t *testing.T, s *store) {
				storagetesting.RunOptionalTestProgressNotify(ctx, t, asking{s}, s.increase)
			},
			notCached: cacheTakesThem,
		},
		"RunWatchSemantics": {
			run: func(ctx context.Context, t *testing.T, s *store) {
				storagetesting.RunWatchSemantics(ctx, t, &settled{Interface: s})
			},
			changesGates: true,
		},
		"RunWatchSemanticInitialEventsExtended": {
			run: func(ctx context.Context, t *testing.T, s *store) {
				storagetesting.RunWatchSemanticInitialEventsExtended(ctx, t, &settled{Interface: s})
			},
			changesGates: true,
		},
		"RunWatchListMatchSingle": {
			run: func(ctx context.Context, t *testing.T, s *store) {
				storagetesting.RunWatchListMatchSingle(ctx, t, &settled{Interface: s})
			},
			changesGates: true,
		},
	}
}

// malformed are the functions about objects that cannot be decrypted or decoded.
func malformed() map[string]conformance {
	unsafeDeletion := func(on bool) featuregatetesting.FeatureOverrides {
		return featuregatetesting.FeatureOverrides{features.AllowUnsafeMalformedObjectDeletion: on}
	}
	return map[string]conformance{
		"RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError": {run: func(ctx context.Context, t *testing.T, s *store) {
			storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(ctx, t, s, s.transformer.fail)
		}},
		"RunTestDeleteExpectedTransformOrDecodeError": {run: func(ctx context.Context, t *testing.T, s *store) {
			storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, s, s.transformer.fail)
		}},
		"RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError": {run: func(ctx context.Context, t *testing.T, s *store) {
			storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(ctx, t, s)
		}},
		"RunTestTransformationFailure": {
			run: func(ctx context.Context, t *testing.T, s *store) {
				storagetesting.RunTestTransformationFailure(ctx, t, s)
			},
			gates:     unsafeDeletion(false), // with it, other errors are returned
			notCached: cacheHidesErrors,
		},
		"RunTestGetListWithErrorAggregation": {
			// The factory takes every error for one of an object, and the function knows others.
			with: storeOptions{byHand: true, noPrefix: true},
			run: func(ctx context.Context, t *testing.T, s *store) {
				storagetesting.RunTestGetListWithErrorAggregation(ctx, t, s, corrupt(ctx))
			},
			notCached: cacheHidesErrors,
		},
		"RunTestGetListWithoutErrorAggregation": {
			with: storeOptions{noPrefix: true},
			run: func(ctx context.Context, t *testing.T, s *store) {
				storagetesting.RunTestGetListWithoutErrorAggregation(ctx, t, s, corrupt(ctx))
			},
			gates:     unsafeDeletion(false),
			notCached: cacheHidesErrors,
		},
		"RunTestWatchError": {
			run: func(ctx context.Context, t *testing.T, s *store) {
				storagetesting.RunTestWatchError(ctx, t, s)
			},
			notCached: cacheHidesErrors,
		},
		"RunTestWatchWithUnsafeDelete": {
			run: func(ctx context.Context, t *testing.T, s *store) {
				storagetesting.RunTestWatchWithUnsafeDelete(ctx, t, s, corrupt(ctx))
			},
			notCached: cacheHidesErrors,
		},
		"RunWatchErrorIsBlockingFurtherEvents": {
			run: func(ctx context.Context, t *testing.T, s *store) {
				storagetesting.RunWatchErrorIsBlockingFurtherEvents(ctx, t, s)
			},
			notCached: cacheHidesErrors,
		},
	}
}

// TestStorage runs the functions of the suite, each on an etcd of its own.
func TestStorage(t *testing.T) {
	all := conformanceTests()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := all[name]
		t.Run(name, func(t *testing.T) {
			if !c.changesGates && c.gates == nil {
				t.Parallel()
			}
			if c.gates != nil {
				featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, c.gates)
			}
			if c.notPlain == "" {
				t.Run("plain", func(t *testing.T) {
					c.run(t.Context(), t, open(t, c.with))
				})
			}
			if c.notCached == "" {
				t.Run("cached", func(t *testing.T) {
					c.with.cached = true
					c.run(t.Context(), t, open(t, c.with))
				})
			}
		})
	}
}

// TestWholeSuiteIsRun: every function of the suite is in the table, by its own name.
func TestWholeSuiteIsRun(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", suite).Output()
	if err != nil {
		t.Fatal(err)
	}
	theirs := exported(t, strings.TrimSpace(string(out)))
	if len(theirs) < 50 {
		t.Fatalf("the suite has only %v", theirs)
	}
	ours, called := conformanceTests(), calls(t, "storage_test.go")
	for _, name := range theirs {
		switch c, ok := ours[name]; {
		case !ok:
			t.Errorf("%s is not run: put it into the table", name)
		case !called[name]:
			t.Errorf("under %s the table runs something else", name)
		case c.notPlain != "" && c.notCached != "":
			t.Errorf("%s is run nowhere", name)
		}
		delete(ours, name)
	}
	for name := range ours {
		t.Errorf("the suite has no %s", name)
	}
}

// exported returns the functions of the package in this directory that a test is to call: they are exported, are named
// Run…, and take a *testing.T or a testing.TB.
func exported(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range parsed.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Run") && slices.ContainsFunc(f.Type.Params.List, isTest) {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

func isTest(parameter *ast.Field) bool {
	of := parameter.Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	selector, ok := of.(*ast.SelectorExpr)
	if !ok || (selector.Sel.Name != "T" && selector.Sel.Name != "TB") {
		return false
	}
	from, ok := selector.X.(*ast.Ident)
	return ok && from.Name == "testing"
}

// calls returns the names in the table of this file under which the suite's function of that name is called.
func calls(t *testing.T, file string) map[string]bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	called := map[string]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		entry, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, ok := entry.Key.(*ast.BasicLit)
		if !ok {
			return true
		}
		name, _ := strconv.Unquote(key.Value)
		ast.Inspect(entry.Value, func(n ast.Node) bool {
			if selector, ok := n.(*ast.SelectorExpr); ok && selector.Sel.Name == name {
				if from, ok := selector.X.(*ast.Ident); ok && from.Name == "storagetesting" {
					called[name] = true
				}
			}
			return true
		})
		return true
	})
	return called
}
