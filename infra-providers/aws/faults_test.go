// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws_test

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/aws"
	"drover.io/infra-providers/aws/awsfake"
	"drover.io/infra-providers/internal/faulttest"
)

// TestFaultInjection creates and deletes machines in an EC2 that lists with a delay and whose every request may fail. At
// times its subnet has no capacity; the other zone has.
func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, shared.Cluster(t), func(t *testing.T, random *faulttest.Rand) faulttest.Environment[*infrav1.AWSMachine, aws.InstanceConfig] {
		ec2 := newEnv(t, awsfake.Options{PendingReads: 2, StoppingReads: 2, TerminatedReads: 3, ListDelay: 1, Faults: func(action string) awsfake.Fault {
			return faults[random.Fault(action == "RunInstances" || action == "TerminateInstances" || action == "RebootInstances")]
		}})
		return faulttest.Environment[*infrav1.AWSMachine, aws.InstanceConfig]{
			Cloud:   ec2.description(),
			Secret:  credentialsSecret(awsfake.AccessKey),
			Machine: func() *infrav1.AWSMachine { return &infrav1.AWSMachine{Spec: newSpec(withFallbacks)} },
			Hooks:   conformanceEnv(t, ec2),
			Pass: func(passed time.Duration) {
				ec2.clock.Advance(passed)
				ec2.cloud.Advance()
			},
		}
	})
}

func withFallbacks(s *infrav1.AWSMachineSpec) {
	s.CredentialsSecretName = "aws"
	s.Volumes = []infrav1.AWSDataVolume{{DeviceName: "/dev/sdf", AWSVolume: infrav1.AWSVolume{SizeGiB: ptr.To[int32](20)}}}
	s.Fallbacks = []infrav1.AWSFallback{{InstanceType: "m7i.xlarge"}, {Subnet: infrav1.AWSSelector{ID: awsfake.SubnetB}}}
}

var faults = map[faulttest.Fault]awsfake.Fault{
	faulttest.Lost:      {Lost: true},
	faulttest.Broken:    {Status: 500, Code: "InternalError", Message: "An internal error has occurred"},
	faulttest.Throttled: {Status: 503, Code: "RequestLimitExceeded", Message: "Request limit exceeded."},
}
