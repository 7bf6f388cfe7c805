// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

const (
	kubeletUnit       = "kubelet.service"
	kubeletDownloaded = "/opt/bin/kubelet"

	// preparedFile exists from when the script starts the kubelet. Images may have its service enabled, or start it whenever it
	// does not run, as system extensions of Flatcar do: a kubelet that is stopped between its first request for a certificate
	// and the answer has lost its key, and the token is valid for no other.
	preparedFile = "/var/lib/drover/prepared"
)

func addKubelet(n *Node, os distribution, in Input) error {
	config, err := kubeletConfiguration(os, in)
	if err != nil {
		return err
	}
	args, err := kubeletArgs(os, in.Spec.Kubelet)
	if err != nil {
		return err
	}
	if n.kubeadm != "" {
		args = args[:ownArgs] // kubeadm adds the others
		args[0] = argument{text: "--bootstrap-kubeconfig=" + kubeadmBootstrapKubeconfig}
	} else {
		n.Files = append(n.Files, File{Path: kubeletConfigFile, Mode: 0o644, Content: config})
	}
	n.kubelet = os.kubelet
	if len(in.Spec.Binaries.Kubelet) > 0 {
		n.kubelet = kubeletDownloaded
	}
	if n.kubeadm != "" {
		args = append(args, argument{"$KUBELET_KUBEADM_ARGS", true})
	}
	nodeIP := ""
	if len(in.Spec.Kubelet.NodeIP.IPFamilies) > 0 {
		args = append(args, argument{"$DROVER_NODE_IP", true})
		nodeIP = "ExecStartPre=" + nodeIPScript + "\nEnvironmentFile=-" + nodeIPFile + "\n"
	}
	command, err := systemdCommand(n.kubelet, args)
	if err != nil {
		return invalid("spec.kubelet.extraArgs", "%v", err)
	}
	n.Files = append(n.Files,
		// The kubeadm package ships a drop-in of this name with a command line of its own: this one shadows it.
		File{Path: unitFolder + "kubelet.service.d/10-kubeadm.conf", Mode: 0o644, Content: []byte("# The command line is in kubelet.service.\n")},
	)
	needs, environment := "network-online.target containerd.service", "EnvironmentFile=-"+proxyFile+"\n"
	if os.metadata != "" {
		// Without the service that writes the file, its variables would be empty.
		needs = metadataUnit + " " + needs
		environment += "EnvironmentFile=-" + os.metadata + "\n"
		n.metadata, n.variables = os.metadata, variable.FindAllString(in.Spec.Kubelet.ProviderID+in.Spec.Kubelet.HostnameOverride, -1)
	}
	if n.kubeadm != "" {
		environment += "EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\n"
	}
	content := `[Unit]
Description=kubelet: the Kubernetes node agent
Documentation=https://kubernetes.io/docs/
Wants=` + needs + `
After=` + needs + `
ConditionPathExists=` + preparedFile + `
` + n.requiresMounts() + `StartLimitIntervalSec=0

[Service]
` + nodeIP + `ExecStart=` + command + `
` + environment + `Restart=always
RestartSec=5
KillMode=process
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
`
	n.Units = append(n.Units, Unit{Name: kubeletUnit, Content: content, Jinja: hasJinja(content)})
	return nil
}

// ownArgs is how many flags are the same on every host: the first ones.
const ownArgs = 3

// kubeletArgs are the flags of the kubelet: only what its configuration file has no field for.
func kubeletArgs(os distribution, k bootstrapv1.Kubelet) ([]argument, error) {
	args := []argument{
		{text: "--bootstrap-kubeconfig=" + bootstrapKubeconfig},
		{text: "--kubeconfig=" + kubeletKubeconfig},
		{text: "--config=" + kubeletConfigFile},
	}
	templated := []struct{ flag, field, value string }{
		{"--provider-id=", "spec.kubelet.providerID", k.ProviderID},
		{"--hostname-override=", "spec.kubelet.hostnameOverride", k.HostnameOverride},
	}
	for _, t := range templated {
		if t.value == "" {
			continue
		}
		if err := checkExpressions(os, t.field, t.value); err != nil {
			return nil, err
		}
		args = append(args, argument{t.flag + t.value, true})
	}
	if k.CloudProvider == bootstrapv1.CloudProviderExternal {
		args = append(args, argument{text: "--cloud-provider=external"})
	}
	if labels, err := nodeLabels(k.NodeLabels); err != nil {
		return nil, err
	} else if labels != "" {
		args = append(args, argument{text: "--node-labels=" + labels})
	}
	taints, err := registerTaints(k)
	if err != nil {
		return nil, err
	}
	args = append(args, argument{text: "--register-with-taints=" + taints})
	if len(k.CredentialProviders) > 0 {
		args = append(args,
			argument{text: "--image-credential-provider-config=" + credentialProviderConfig}, argument{text: "--image-credential-provider-bin-dir=" + credentialProviderFolder})
	}
	for _, name := range slices.Sorted(maps.Keys(k.ExtraArgs)) {
		value := k.ExtraArgs[name]
		if !isFlagName(name) || strings.ContainsFunc(value, unicode.IsControl) {
			return nil, invalid("spec.kubelet.extraArgs["+name+"]", "must be the name of a flag without dashes, with a value of one line")
		}
		if hasJinja(value) {
			return nil, invalid("spec.kubelet.extraArgs["+name+"]", "must not contain jinja expressions")
		}
		if strings.HasPrefix(name, "healthz-") {
			return nil, invalid("spec.kubelet.extraArgs["+name+"]", "must stay as it is, so that the host's health check can reach it")
		}
		if slices.ContainsFunc(args, func(arg argument) bool { return strings.HasPrefix(arg.text, "--"+name+"=") }) {
			return nil, invalid("spec.kubelet.extraArgs["+name+"]", "is set by the controller")
		}
		args = append(args, argument{text: "--" + name + "=" + value})
	}
	return args, nil
}

// unsafeInWord are the characters that no word of a unit may have outside of expressions and variables.
const unsafeInWord = " \t\n\r\"'\\%{}$;#"

// variable is an environment variable in a command line of systemd.
var variable = regexp.MustCompile(`\$\{[A-Z0-9_]+\}`)

// checkExpressions accepts one word, which may contain jinja expressions where the format has them.
func checkExpressions(os distribution, field, value string) error {
	if hasJinja(value) && os.format != bootstrapv1.CloudConfig {
		return invalid(field, "jinja expressions work in cloud-config only: use a variable of %s such as ${COREOS_EC2_INSTANCE_ID}", os.metadata)
	}
	if os.metadata == "" && variable.MatchString(value) {
		return invalid(field, "the operating system has no file with variables, so that they would be empty: use an expression such as {{ v1.instance_id }}")
	}
	rest := value
	for {
		before, after, found := strings.Cut(rest, "{{")
		word := variable.ReplaceAllString(before, "")
		if strings.ContainsAny(word, unsafeInWord) || strings.ContainsFunc(word, unicode.IsControl) {
			return invalid(field, "must be one word without quotes, in which {{ expressions }} may stand")
		}
		if !found {
			return nil
		}
		expression, tail, closed := strings.Cut(after, "}}")
		if !closed || strings.ContainsAny(expression, "\n\r\"\\%{}") {
			return invalid(field, "has an expression that is not closed, or one with a line break, a double quote, a backslash or a brace")
		}
		if !knownMetadata(expression) {
			return invalid(field, "{{%s}} is no instance metadata: cloud-init fills in ds.meta_data.… and v1.…, such as {{ v1.local_hostname }}", expression)
		}
		rest = tail
	}
}

func isFlagName(s string) bool {
	return s != "" && s[0] != '-' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// ownLabels are the labels of kubernetes.io that a kubelet may set on its own Node.
var ownLabels = []string{
	corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone,
	corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType, corev1.LabelInstanceTypeStable, corev1.LabelOSStable,
	corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
}

func nodeLabels(labels map[string]string) (string, error) {
	pairs := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		field := "spec.kubelet.nodeLabels[" + key + "]"
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return "", invalid(field, "is not a label key: %s", problems[0])
		}
		if problems := validation.IsValidLabelValue(labels[key]); len(problems) > 0 {
			return "", invalid(field, "is not a label value: %s", problems[0])
		}
		if !mayLabel(key) {
			return "", invalid(field, "a kubelet may not set this label: put it on the Machine, whose labels are synchronised to the Node")
		}
		pairs = append(pairs, key+"="+labels[key])
	}
	return strings.Join(pairs, ","), nil
}

func mayLabel(key string) bool {
	domain, _, qualified := strings.Cut(key, "/")
	if !qualified || slices.Contains(ownLabels, key) {
		return true
	}
	within := func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) }
	if within("kubelet.kubernetes.io") || within("node.kubernetes.io") {
		return true
	}
	return !within("kubernetes.io") && !within("k8s.io")
}

// externalTaint is the taint that a kubelet with an external cloud provider adds itself. The API server refuses a Node that has
// it twice.
var externalTaint = corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule}

// nodeTaints are the taints that the kubelet is given: the one that the core removes, and those of the spec. One that is
// there again is left out.
func nodeTaints(k bootstrapv1.Kubelet) ([]corev1.Taint, error) {
	all := []corev1.Taint{clusterv1.NodeUninitializedTaint}
	for i, t := range k.Taints {
		field := "spec.kubelet.taints[" + itoa(i) + "]"
		if problems := validation.IsQualifiedName(t.Key); len(problems) > 0 {
			return nil, invalid(field+".key", "is not a taint key: %s", problems[0])
		}
		if problems := validation.IsValidLabelValue(t.Value); len(problems) > 0 {
			return nil, invalid(field+".value", "is not a taint value: %s", problems[0])
		}
		switch t.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			return nil, invalid(field+".effect", "must be NoSchedule, PreferNoSchedule or NoExecute")
		}
		if k.CloudProvider == bootstrapv1.CloudProviderExternal && externalTaint.MatchTaint(&t) {
			continue
		}
		// A kubelet does not start with two of the same key and effect.
		known := slices.IndexFunc(all, func(other corev1.Taint) bool { return other.MatchTaint(&t) })
		switch {
		case known < 0:
			all = append(all, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		case all[known].Value != t.Value:
			return nil, invalid(field, "a Node has one taint with the key %s and the effect %s, and there is one already with the value %q", t.Key, t.Effect, all[known].Value)
		}
	}
	return all, nil
}

func registerTaints(k bootstrapv1.Kubelet) (string, error) {
	taints, err := nodeTaints(k)
	if err != nil {
		return "", err
	}
	all := make([]string, 0, len(taints))
	for _, t := range taints {
		all = append(all, t.ToString())
	}
	return strings.Join(all, ","), nil
}
