// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	kubeletv1 "k8s.io/kubelet/config/v1beta1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

const (
	kubeletConfigFile  = "/var/lib/kubelet/config.yaml"
	defaultClusterDNS  = "10.96.0.10"
	containerdEndpoint = "unix:///run/containerd/containerd.sock"

	kubeletConfigurationField = "spec.kubelet.configuration"

	// MaxKubeletConfiguration is how many bytes the operator's part of the configuration may have. The API server accepts
	// any object there, and one of a megabyte takes several hundred times as much while it is parsed.
	MaxKubeletConfiguration = 16 << 10
)

// checkKubeletConfigurationSize refuses an operator's part that is too large, before it is parsed.
func checkKubeletConfigurationSize(spec *bootstrapv1.BootstrapConfigSpec) error {
	if fragment := spec.Kubelet.Configuration; fragment != nil && len(fragment.Raw) > MaxKubeletConfiguration {
		return invalid(kubeletConfigurationField, "has %d bytes, more than the %d allowed", len(fragment.Raw), MaxKubeletConfiguration)
	}
	return nil
}

// kubeletConfiguration is the operator's fragment merged over the defaults.
func kubeletConfiguration(os distribution, in Input) ([]byte, error) {
	if problems := validation.IsDNS1123Subdomain(in.ClusterDomain); in.ClusterDomain != "" && len(problems) > 0 {
		return nil, invalid("Cluster.spec.clusterNetwork.serviceDomain", "%s", problems[0])
	}
	for i, address := range in.Spec.Kubelet.ClusterDNS {
		if _, err := netip.ParseAddr(address); err != nil {
			return nil, invalid("spec.kubelet.clusterDNS["+itoa(i)+"]", "must be an IP address")
		}
	}
	config := kubeletDefaults(os, in)
	patch, err := kubeletFragment(in)
	if err != nil {
		return nil, err
	}
	dropExcluded(config, patch)
	config = merge(config, patch)
	out, err := yaml.Marshal(config)
	if err != nil {
		return nil, invalid(kubeletConfigurationField, "cannot be written as YAML, whose keys are not as long")
	}
	// The kubelet ignores a field that it does not have, with only a line in its log.
	if err := yaml.UnmarshalStrict(out, &kubeletv1.KubeletConfiguration{}); err != nil {
		if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
			return nil, invalid(kubeletConfigurationField+"."+wrong.Field, "must be %s, and is a JSON %s", jsonType(wrong.Type), wrong.Value)
		}
		return nil, invalid(kubeletConfigurationField, "%s", decodeProblem(err))
	}
	return out, checkCase(config)
}

// checkCase refuses a field whose name differs from that of a known one in upper and lower case only: the standard decoder takes
// it for that, and the kubelet ignores it.
func checkCase(config map[string]any) error {
	raw, err := json.Marshal(config)
	if err != nil {
		return invalid(kubeletConfigurationField, "cannot be written as JSON")
	}
	unknown, err := kjson.UnmarshalStrict(raw, &kubeletv1.KubeletConfiguration{})
	switch {
	case err != nil:
		return invalid(kubeletConfigurationField, "%s", decodeProblem(err))
	case len(unknown) > 0:
		return invalid(kubeletConfigurationField, "%s, in which upper and lower case count", decodeProblem(unknown[0]))
	}
	return nil
}

// kubeletFragment is the operator's part of the configuration; nil if there is none.
func kubeletFragment(in Input) (map[string]any, error) {
	fragment := in.Spec.Kubelet.Configuration
	if fragment == nil || len(fragment.Raw) == 0 {
		return nil, nil
	}
	var patch map[string]any
	if err := json.Unmarshal(fragment.Raw, &patch); err != nil {
		return nil, invalid(kubeletConfigurationField, "is not an object")
	}
	for key, want := range map[string]any{"apiVersion": kubeletv1.SchemeGroupVersion.String(), "kind": "KubeletConfiguration"} {
		if got, set := patch[key]; set && got != want {
			return nil, invalid(kubeletConfigurationField+"."+key, "must be %v", want)
		}
	}
	if err := checkHealthz(patch); err != nil {
		return nil, err
	}
	return patch, checkOverridden(patch, in.Spec.Kubelet.ProviderID)
}

// checkOverridden refuses what the kubelet would ignore, since its command line has the same, and what is only filled in there.
func checkOverridden(patch map[string]any, providerID string) error {
	const field = kubeletConfigurationField + "."
	if taints, isList := patch["registerWithTaints"].([]any); isList && len(taints) > 0 {
		return invalid(field+"registerWithTaints", "is overridden by the kubelet's command line: use spec.kubelet.taints")
	}
	if id, _ := patch["providerID"].(string); id != "" && (providerID != "" || hasJinja(id) || variable.MatchString(id)) {
		return invalid(field+"providerID", "is overridden by spec.kubelet.providerID, and nothing is filled in here: use that field alone")
	}
	return nil
}

// dropExcluded removes the defaults with which a kubelet does not start beside a value of the operator's fragment.
func dropExcluded(defaults, patch map[string]any) {
	const period, critical = "shutdownGracePeriod", "shutdownGracePeriodCriticalPods"
	if serialize, set := patch["serializeImagePulls"]; set && serialize != false { // null is the kubelet's own default, true
		delete(defaults, "maxParallelImagePulls")
	}
	gates, _ := patch["featureGates"].(map[string]any)
	if gates["RotateKubeletServerCertificate"] == false {
		delete(defaults, "serverTLSBootstrap")
	}
	if byPriority, _ := patch["shutdownGracePeriodByPodPriority"].([]any); len(byPriority) > 0 || gates["GracefulNodeShutdown"] == false {
		delete(defaults, period)
		delete(defaults, critical)
	}
	if whole, set := patch[period]; set && durationOf(whole) < durationOf(defaults[critical]) {
		delete(defaults, critical)
	}
}

// durationOf returns a duration of a KubeletConfiguration; zero for anything else, as without the field.
func durationOf(value any) time.Duration {
	text, _ := value.(string)
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

// checkHealthz refuses to move the endpoint of the host's health check.
func checkHealthz(patch map[string]any) error {
	const field = kubeletConfigurationField + "."
	if port, set := patch["healthzPort"]; set && port != float64(healthzPort) {
		return invalid(field+"healthzPort", "must be %d, which the host's health check reads", healthzPort)
	}
	switch address := patch["healthzBindAddress"]; address {
	case nil, "127.0.0.1", "0.0.0.0", "::":
		return nil
	default:
		return invalid(field+"healthzBindAddress", "must be 127.0.0.1, 0.0.0.0 or ::, so that the host's health check can reach it")
	}
}

func kubeletDefaults(os distribution, in Input) map[string]any {
	reserved := func() map[string]any { return map[string]any{"cpu": "100m", "memory": "200Mi"} }
	config := map[string]any{
		"apiVersion": kubeletv1.SchemeGroupVersion.String(),
		"kind":       "KubeletConfiguration",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": caFile},
		},
		"authorization":                   map[string]any{"mode": "Webhook"},
		"cgroupDriver":                    "systemd",
		"clusterDNS":                      ClusterDNS(in),
		"clusterDomain":                   "cluster.local",
		"containerRuntimeEndpoint":        containerdEndpoint,
		"kubeReserved":                    reserved(),
		"maxParallelImagePulls":           5,
		"protectKernelDefaults":           true,
		"readOnlyPort":                    0,
		"rotateCertificates":              true,
		"serializeImagePulls":             false,
		"serverTLSBootstrap":              true,
		"shutdownGracePeriod":             "30s",
		"shutdownGracePeriodCriticalPods": "10s",
		"systemReserved":                  reserved(),
		"volumePluginDir":                 "/var/lib/kubelet/volumeplugins",
	}
	if in.ClusterDomain != "" {
		config["clusterDomain"] = in.ClusterDomain
	}
	if os.resolvConf != "" {
		config["resolvConf"] = os.resolvConf
	}
	return config
}

// ClusterDNS are the addresses that the spec has, or the one that a cluster's DNS Service has by convention.
func ClusterDNS(in Input) []string {
	if len(in.Spec.Kubelet.ClusterDNS) > 0 {
		return in.Spec.Kubelet.ClusterDNS
	}
	prefix, err := netip.ParsePrefix(in.ServiceCIDR)
	if err != nil {
		return []string{defaultClusterDNS}
	}
	address := prefix.Masked().Addr()
	for range 10 {
		address = address.Next()
	}
	return []string{address.String()}
}

// merge puts patch over base: objects are merged, null removes, anything else replaces (RFC 7386).
func merge(base, patch map[string]any) map[string]any {
	for key, value := range patch {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(base, key)
		case isObject:
			under, _ := base[key].(map[string]any)
			if under == nil {
				under = map[string]any{}
			}
			base[key] = merge(under, inner)
		default:
			base[key] = value
		}
	}
	return base
}

// decodeProblem returns the part of a decoding error that names the problem.
func decodeProblem(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, "unknown field"); i >= 0 {
		return text[i:] + ": it is not a field of KubeletConfiguration " + kubeletv1.SchemeGroupVersion.Version
	}
	return strings.TrimPrefix(strings.TrimPrefix(text, "error unmarshaling JSON: "), "while decoding JSON: ")
}

// jsonType is what a value of a Go type is in JSON.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float64, reflect.Float32:
		return "a number"
	}
	return "an integer of type " + t.Kind().String()
}
