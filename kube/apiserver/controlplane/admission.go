// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	webhookinitializer "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/kubernetes/pkg/kubeapiserver/admission/exclusion"
	certapproval "k8s.io/kubernetes/plugin/pkg/admission/certificates/approval"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/ctbattest"
	certsigning "k8s.io/kubernetes/plugin/pkg/admission/certificates/signing"
	certsubject "k8s.io/kubernetes/plugin/pkg/admission/certificates/subjectrestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
	"k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"
)

// plugins are those that upstream's sample of a generic control plane has on, in the order of AllOrderedPlugins in
// pkg/kubeapiserver/options/plugins.go.
func plugins() *genericoptions.AdmissionOptions {
	o := genericoptions.NewAdmissionOptions()
	for _, register := range []func(*admission.Plugins){
		serviceaccount.Register, defaulttolerationseconds.Register, certapproval.Register, certsigning.Register,
		ctbattest.Register, certsubject.Register, resourcequota.Register,
	} {
		register(o.Plugins)
	}
	o.RecommendedPluginOrder = []string{
		lifecycle.PluginName, serviceaccount.PluginName, defaulttolerationseconds.PluginName, certapproval.PluginName,
		certsigning.PluginName, ctbattest.PluginName, certsubject.PluginName, mutatingpolicy.PluginName,
		mutatingwebhook.PluginName, validatingpolicy.PluginName, validatingwebhook.PluginName, resourcequota.PluginName,
	}
	return o
}

// Admit sets up admission, with further initializers of its plugins. It stands for the end of CreateConfig in
// pkg/controlplane/apiserver/config.go, and for pkg/controlplane/apiserver/admission.
func (c *Config) Admit(further ...admission.PluginInitializer) error {
	client, err := dynamic.NewForConfig(c.Generic.LoopbackClientConfig)
	if err != nil {
		return err
	}
	initializers := []admission.PluginInitializer{webhookinitializer.NewPluginInitializer(c.webhooks, c.services), initialize{}}
	return plugins().ApplyTo(c.Generic, c.Informers, c.client, client, utilfeature.DefaultFeatureGate,
		compatibility.DefaultComponentGlobalsRegistry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent),
		append(initializers, further...)...)
}

// initialize tells plugins what quotas count, and which kinds they leave alone.
type initialize struct{}

// Initialize implements admission.PluginInitializer.
func (initialize) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsQuotaConfiguration); ok {
		wants.SetQuotaConfiguration(quotas())
	}
	if wants, ok := plugin.(initializer.WantsExcludedAdmissionResources); ok {
		wants.SetExcludedAdmissionResources(exclusion.Excluded())
	}
}

// quotas stands for pkg/quota/v1/install and pkg/quota/v1/evaluator/core, for the kinds that are served: each is
// counted, and some have a second name. Events and reviews are not.
func quotas() quota.Configuration {
	var evaluators []quota.Evaluator
	for _, name := range []corev1.ResourceName{corev1.ResourceConfigMaps, corev1.ResourceQuotas, corev1.ResourceSecrets} {
		evaluators = append(evaluators, generic.NewObjectCountEvaluator(corev1.Resource(string(name)), nil, name))
	}
	ignored := map[schema.GroupResource]struct{}{
		{Resource: "events"}:                         {},
		{Group: "events.k8s.io", Resource: "events"}: {},
	}
	for _, review := range exclusion.Excluded() {
		ignored[review] = struct{}{}
	}
	return generic.NewConfiguration(evaluators, ignored)
}
