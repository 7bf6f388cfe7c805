// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	clusters "github.com/nutanix/ntnx-api-golang-clients/clustermgmt-go-client/v4/models/clustermgmt/v4/config"
	networks "github.com/nutanix/ntnx-api-golang-clients/networking-go-client/v4/models/networking/v4/config"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

const aCluster, aSubnet = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"

// answers are those of a server that a tenant chooses.
type answers struct {
	API
	subnets    []networks.Subnet
	containers []clusters.StorageContainer
	clusters   []clusters.Cluster
}

func (a answers) SubnetsByName(context.Context, string) iter.Seq2[*networks.Subnet, error] {
	return yieldAll(a.subnets)
}

func (a answers) StorageContainersByName(context.Context, string) iter.Seq2[*clusters.StorageContainer, error] {
	return yieldAll(a.containers)
}

func (a answers) Clusters(context.Context) iter.Seq2[*clusters.Cluster, error] {
	return yieldAll(a.clusters)
}

func yieldAll[T any](all []T) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for n := range all {
			if !yield(&all[n], nil) {
				return
			}
		}
	}
}

// TestFewAnswersAreKept of a server that lists without end, or long texts.
func TestFewAnswersAreKept(t *testing.T) {
	t.Parallel()
	named := func(id string, clusters ...string) networks.Subnet {
		return networks.Subnet{Name: ptr.To("n"), ExtId: &id, ClusterReferenceList: clusters}
	}
	long := strings.Repeat("x", 1<<20)
	for name, test := range map[string]struct {
		answers answers
		want    error
		kept    int
	}{
		"one subnet":         {answers{subnets: []networks.Subnet{named(aSubnet, aCluster)}}, nil, 1},
		"junk beside its ID": {answers{subnets: []networks.Subnet{named(aSubnet, aCluster, long), named(long)}}, nil, 1},
		"junk without end":   {answers{subnets: []networks.Subnet{named(aSubnet, aCluster), named(aCluster, slicesOf("", 200_000)...)}}, nil, 1},
		"too many subnets":   {answers{subnets: make([]networks.Subnet, 0)}, errTooMany, 0},
		"too many clusters":  {answers{subnets: []networks.Subnet{named(aSubnet, slicesOf(aCluster, 1001)...)}}, errTooMany, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.answers.subnets != nil && len(test.answers.subnets) == 0 {
				for range 1001 {
					test.answers.subnets = append(test.answers.subnets, named(aSubnet))
				}
			}
			l := NewLookup(test.answers, clocktesting.NewFakePassiveClock(time.Now()))
			got, err := l.subnet(t.Context(), aCluster, "n", "spec")
			if !errors.Is(err, test.want) || test.want == nil && got != aSubnet || l.answers.Len() != test.kept {
				t.Errorf("got %q, error %v, %d answers kept", got, err, l.answers.Len())
			}
			for _, kept := range l.answers.All() {
				for _, each := range kept.([]place) {
					if len(each.id) > 36 || cap(each.clusters) > 1 {
						t.Errorf("kept %d bytes and room for %d clusters", len(each.id), cap(each.clusters))
					}
				}
			}
		})
	}
}

func slicesOf(text string, n int) (all []string) {
	for range n {
		all = append(all, text)
	}
	return all
}

// TestFewClustersAreKept, and no long names.
func TestFewClustersAreKept(t *testing.T) {
	t.Parallel()
	cluster := clusters.Cluster{ExtId: ptr.To(aCluster), Name: ptr.To(strings.Repeat("x", 256))}
	l := NewLookup(answers{clusters: []clusters.Cluster{cluster}}, clocktesting.NewFakePassiveClock(time.Now()))
	if all, err := l.ReadClusters(t.Context()); err != nil || len(all) != 1 || all[0].Name != "" {
		t.Errorf("got %d clusters, error %v", len(all), err)
	}
	many := answers{}
	for range 1001 {
		many.clusters = append(many.clusters, cluster)
	}
	l = NewLookup(many, clocktesting.NewFakePassiveClock(time.Now()))
	if _, err := l.ReadClusters(t.Context()); !errors.Is(err, errTooMany) || l.answers.Len() > 0 {
		t.Errorf("error %v, %d answers kept", err, l.answers.Len())
	}
}
