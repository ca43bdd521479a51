// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	admissionregistrationrest "k8s.io/kubernetes/pkg/registry/admissionregistration/rest"
	authenticationrest "k8s.io/kubernetes/pkg/registry/authentication/rest"
	authorizationrest "k8s.io/kubernetes/pkg/registry/authorization/rest"
	certificatesrest "k8s.io/kubernetes/pkg/registry/certificates/rest"
	coordinationrest "k8s.io/kubernetes/pkg/registry/coordination/rest"
	eventsrest "k8s.io/kubernetes/pkg/registry/events/rest"
	flowcontrolrest "k8s.io/kubernetes/pkg/registry/flowcontrol/rest"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
)

// eventTTL is for how long events are kept.
const eventTTL = time.Hour

// provider makes the storage of a group.
type provider interface {
	GroupName() string
	NewRESTStorage(serverstorage.APIResourceConfigSource, generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error)
}

// resources are those versions of groups that are served. It stands for DefaultGenericAPIResourceConfigSource in
// pkg/controlplane/instance.go: the stable ones.
func resources() *serverstorage.ResourceConfig {
	enabled := serverstorage.NewResourceConfig()
	enabled.EnableVersions(admissionregistrationv1.SchemeGroupVersion, corev1.SchemeGroupVersion,
		authenticationv1.SchemeGroupVersion, authorizationv1.SchemeGroupVersion, certificatesv1.SchemeGroupVersion,
		coordinationv1.SchemeGroupVersion, eventsv1.SchemeGroupVersion, rbacv1.SchemeGroupVersion, flowcontrolv1.SchemeGroupVersion)
	return enabled
}

// installAPIs stands for GenericStorageProviders and InstallAPIs in pkg/controlplane/apiserver/apis.go. The order is that
// of discovery.
func (c *Config) installAPIs(to *genericapiserver.GenericAPIServer) error {
	core, err := c.core()
	if err != nil {
		return err
	}
	authentication, authorize := c.Generic.Authentication, c.Generic.Authorization.Authorizer
	var groups []*genericapiserver.APIGroupInfo
	for _, provider := range []provider{
		core,
		authenticationrest.RESTStorageProvider{Authenticator: authentication.Authenticator, APIAudiences: authentication.APIAudiences},
		authorizationrest.RESTStorageProvider{Authorizer: authorize, RuleResolver: c.Generic.RuleResolver},
		certificatesrest.RESTStorageProvider{Authorizer: authorize, Generic: true},
		coordinationrest.RESTStorageProvider{},
		rbacrest.RESTStorageProvider{Authorizer: authorize},
		flowcontrolrest.RESTStorageProvider{InformerFactory: c.Informers},
		admissionregistrationrest.RESTStorageProvider{Authorizer: authorize, DiscoveryClient: c.client.Discovery()},
		eventsrest.RESTStorageProvider{TTL: eventTTL},
	} {
		group, err := provider.NewRESTStorage(c.storage.APIResourceConfigSource, c.Generic.RESTOptionsGetter)
		if err != nil {
			return fmt.Errorf("API group %q: %w", provider.GroupName(), err)
		}
		if hooked, ok := provider.(genericapiserver.PostStartHookProvider); ok {
			name, hook, err := hooked.PostStartHook()
			if err != nil {
				return fmt.Errorf("API group %q: %w", provider.GroupName(), err)
			}
			to.AddPostStartHookOrDie(name, hook)
		}
		if provider.GroupName() != corev1.GroupName {
			groups = append(groups, &group)
		} else if err := to.InstallLegacyAPIGroup(genericapiserver.DefaultLegacyAPIPrefix, &group); err != nil {
			return err
		}
	}
	return to.InstallAPIGroups(groups...)
}
