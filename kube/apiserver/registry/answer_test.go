// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilcompatibility "k8s.io/apiserver/pkg/util/compatibility"
	clientrest "k8s.io/client-go/rest"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/apiserver/registry/openapi"
)

// parts counts how often it is written to.
type parts struct {
	bytes.Buffer
	n int
}

func (p *parts) Write(data []byte) (int, error) {
	p.n++
	return p.Buffer.Write(data)
}

// A list is encoded one Cluster after the other, so that it is not in memory as a whole once more, and is sent in large parts.
func TestListIsAnsweredInParts(t *testing.T) {
	t.Parallel()
	items, err := json.Marshal(longList())
	if err != nil {
		t.Fatal(err)
	}
	s, ctx := serve(t, &apiServer{answer: text(http.StatusOK, `{"metadata":{"resourceVersion":"150"},"items":`+string(items)+`}`)}, roles{names: []string{"*"}})
	list, err := s.List(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	codecs := s.group(NewScheme()).NegotiatedSerializer
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	var encoded parts
	if err := codecs.EncoderForVersion(info.Serializer, view.SchemeGroupVersion).Encode(list, &encoded); err != nil {
		t.Fatal(err)
	}
	if encoded.n < 300 {
		t.Errorf("300 Clusters are encoded in %d parts", encoded.n)
	}

	answer := ask(ctx, t, s, runtime.ContentTypeJSON)
	var got view.ClusterList
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || answer.Code != http.StatusOK || len(got.Items) != 300 {
		t.Fatalf("%d, %d Clusters, %v", answer.Code, len(got.Items), err)
	}
	if most := answer.Body.Len()/writeLength + 2; answer.n > most {
		t.Errorf("%d bytes are written in %d parts, not %d", answer.Body.Len(), answer.n, most)
	}
}

// Who prefers protobuf gets JSON if he takes that, too: what Clusters have of every kind there is in protobuf, and the rest not.
func TestMediaTypes(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, &apiServer{answer: text(http.StatusOK, noClusters)}, roles{names: []string{"*"}})
	const protobuf, json, metadata = "application/vnd.kubernetes.protobuf", "application/json", ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	for accept, want := range map[string]string{
		protobuf + "," + json:                       json,
		protobuf + metadata + "," + json + metadata: protobuf,
		json: json,
	} {
		answer := ask(ctx, t, s, accept)
		if got := answer.Header().Get("Content-Type"); answer.Code != http.StatusOK || got != want {
			t.Errorf("%s: %d, %s", accept, answer.Code, got)
		}
	}
	if answer := ask(ctx, t, s, protobuf); answer.Code != http.StatusNotAcceptable {
		t.Errorf("protobuf alone: %d", answer.Code)
	}
}

// ask lists Clusters of a server that has the group of a store.
func ask(ctx context.Context, t *testing.T, s *store, accept string) *answer {
	t.Helper()
	scheme := NewScheme()
	server := genericServer(t, scheme)
	if err := s.Install(server, scheme); err != nil {
		t.Fatal(err)
	}
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "list", APIGroup: view.GroupName, APIVersion: "v1alpha1", Resource: resourceClusters})
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/apis/clusterregistry.k8s.io/v1alpha1/clusters", nil)
	request.Header.Set("Accept", accept)
	out := &answer{ResponseRecorder: httptest.NewRecorder()}
	server.Handler.Director.ServeHTTP(out, request)
	return out
}

// answer counts how often it is written to.
type answer struct {
	*httptest.ResponseRecorder

	n int
}

func (a *answer) Write(data []byte) (int, error) {
	a.n++
	return a.ResponseRecorder.Write(data)
}

func genericServer(t *testing.T, scheme *runtime.Scheme) *genericapiserver.GenericAPIServer {
	t.Helper()
	config := genericapiserver.NewRecommendedConfig(serializer.NewCodecFactory(scheme))
	config.EffectiveVersion = utilcompatibility.DefaultBuildEffectiveVersion()
	config.ExternalAddress, config.LoopbackClientConfig = "registry.example:443", &clientrest.Config{}
	names := openapinamer.NewDefinitionNamer(scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, names)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, names)
	config.OpenAPIConfig.Info.Title, config.OpenAPIV3Config.Info.Title = "Cluster registry", "Cluster registry"
	server, err := config.Complete().New("test", genericapiserver.NewEmptyDelegate())
	if err != nil {
		t.Fatal(err)
	}
	return server
}
