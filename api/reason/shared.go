// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

// paused is the condition Paused, which most kinds have.
func paused(kind string) []Entry {
	return condition(kind, clusterv1.PausedCondition,
		reason{clusterv1.NotPausedReason, "False", "the object is reconciled", Nobody, "", ""},
		reason{clusterv1.PausedReason, "True", "nothing is done, also no deletion", Operator,
			"once no move, restore or repair needs it, remove what the message names: spec.paused of the Cluster, or the annotation " + clusterv1.PausedAnnotation, ""},
	)
}

// annotationsValid is the condition AnnotationsValid.
func annotationsValid(kind string) []Entry {
	return condition(kind, droverpolicyv1.AnnotationsValidCondition,
		reason{droverpolicyv1.InvalidValueReason, "False", "an annotation has a value that is not understood", Operator,
			"set the annotation that the message names to one of the allowed values, or remove it", ""},
	)
}

// frozen is the condition Frozen of MachineDeployments and of MachineSets without one.
func frozen(kind, resource string) []Entry {
	return condition(kind, droverpolicyv1.FrozenCondition,
		reason{droverpolicyv1.FrozenByAnnotationReason, "True", "no Machines are created or replaced, because the annotation " + droverpolicyv1.FreezeAnnotation + ` is "true"`, Operator,
			"remove the annotation once Machines may be created and replaced again", "kubectl drover thaw " + resource + "/{name} --namespace {namespace}"},
		reason{droverpolicyv1.FreezeInvalidReason, "True", "no Machines are created or replaced, because the annotation " + droverpolicyv1.FreezeAnnotation + ` is neither "true" nor "false"`, Operator,
			"correct the annotation or remove it", "kubectl drover thaw " + resource + "/{name} --namespace {namespace}"},
		reason{droverpolicyv1.OvershootReason, "True", "no Machines are created or replaced, because there have been more than replicas, surge and tolerance allow", Operator,
			"find who else creates Machines for it, or delete the surplus; it ends by itself once the surplus is gone",
			"kubectl get machine.cluster.x-k8s.io --namespace {namespace} -l cluster.x-k8s.io/cluster-name={cluster} -o 'custom-columns=NAME:.metadata.name,OWNER:.metadata.ownerReferences[0].name,CREATED:.metadata.creationTimestamp'"},
	)
}

// blocked is the reason of a change of size, a rollout or a deletion that does not continue by itself.
func blocked(meaning string) reason {
	return reason{droverpolicyv1.BlockedReason, "True", meaning + "; the message has the cause", Operator, "remove the cause that the message names", ""}
}

// workers are the conditions of MachineDeployments and MachineSets that have the same reasons.
func workers(kind string) []Entry {
	return concat(
		condition(kind, clusterv1.ScalingUpCondition,
			reason{clusterv1.NotScalingUpReason, "False", "there are as many Machines as wanted; a message has what would block more", Nobody, "", ""},
			reason{clusterv1.ScalingUpReason, "True", "Machines are missing, and being created as the limit of pending Machines and the state of the control plane allow", Drover, "", ""},
			blocked("Machines are missing, and cannot be created"),
		),
		condition(kind, clusterv1.ScalingDownCondition,
			reason{clusterv1.NotScalingDownReason, "False", "there are no surplus Machines; a message has how many have been deleting for more than 15 minutes", Nobody, "", ""},
			reason{clusterv1.ScalingDownReason, "True", "surplus Machines are being deleted", Drover, "", ""},
			blocked("surplus Machines are not deleted"),
		),
		condition(kind, clusterv1.MachinesReadyCondition,
			reason{clusterv1.ReadyReason, "True", "all Machines are ready", Nobody, "", ""},
			reason{clusterv1.NoReplicasReason, "True", "there are no Machines", Nobody, "", ""},
			reason{clusterv1.NotReadyReason, "False", "Machines are not ready; the message names them", Operator, "ask what they wait for", "kubectl drover why " + strings.ToLower(kind) + "/{name} --namespace {namespace}"},
			reason{clusterv1.ReadyUnknownReason, "Unknown", "it is not known whether Machines are ready; the message names them", Operator, "ask what they wait for", "kubectl drover why " + strings.ToLower(kind) + "/{name} --namespace {namespace}"},
			reason{clusterv1.InternalErrorReason, "Unknown", "the conditions of the Machines cannot be merged; the message has the error", Installer, "report it with the message", ""},
		),
		condition(kind, clusterv1.MachinesUpToDateCondition,
			reason{clusterv1.UpToDateReason, "True", "all Machines have the newest template", Nobody, "", ""},
			reason{clusterv1.NoReplicasReason, "True", "there are no Machines", Nobody, "", ""},
			reason{clusterv1.NotUpToDateReason, "False", "Machines have an older template; the message has the difference", Drover, "the rollout replaces them", ""},
			reason{clusterv1.UpToDateUnknownReason, "Unknown", "it is not known whether Machines have the newest template", Drover, "", ""},
			reason{clusterv1.InternalErrorReason, "Unknown", "the conditions of the Machines cannot be merged; the message has the error", Installer, "report it with the message", ""},
		),
		condition(kind, clusterv1.RemediatingCondition,
			reason{clusterv1.NotRemediatingReason, "False", "no unhealthy Machine is being replaced or waits for that", Nobody, "", ""},
			reason{clusterv1.RemediatingReason, "True", "unhealthy Machines are being replaced, or wait for that", Drover, "the condition " + clusterv1.MachineOwnerRemediatedCondition + " of the Machines has what they wait for", ""},
		),
		condition(kind, clusterv1.DeletingCondition,
			reason{clusterv1.NotDeletingReason, "False", "it is not being deleted", Nobody, "", ""},
			reason{clusterv1.DeletingReason, "True", "it is being deleted; the message has what is left", Drover, "", ""},
			blocked("it is to be deleted, but Machines or MachineSets of it are not"),
		),
	)
}
