// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package awsfake

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// describe is DescribeInstances. Each call counts as a read of every instance.
func (c *Cloud) describe(p url.Values) (any, error) {
	ids := values(p, "InstanceId")
	if len(ids) > 0 && p.Get("MaxResults") != "" {
		return nil, refuse("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	matching := filters(p)
	visible := []*instance{}
	for _, i := range slices.Clone(c.instances) {
		if !c.read(i) || len(ids) > 0 && !slices.Contains(ids, i.id) || !matching(i.attributes()) {
			continue
		}
		visible = append(visible, i)
	}
	for _, id := range ids {
		if !strings.HasPrefix(id, "i-") {
			return nil, refuse("InvalidInstanceID.Malformed", "Invalid id: %q", id)
		}
		if !slices.ContainsFunc(visible, func(i *instance) bool { return i.id == id }) {
			return nil, refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
	}
	return page(visible, p)
}

// read counts a read of an instance and reports whether the read returns it.
func (c *Cloud) read(i *instance) (shown bool) {
	if i.hidden > 0 {
		i.hidden--
		return false
	}
	switch i.state {
	case pending:
		if i.boot--; i.boot < 0 {
			i.state = running
		}
	case shuttingDown:
		if i.stop--; i.stop < 0 {
			c.setTerminated(i)
		}
	case terminated:
		if i.keep--; i.keep < 0 {
			c.instances = slices.DeleteFunc(c.instances, func(other *instance) bool { return other == i })
			return false
		}
	}
	return true
}

// page returns one page of the instances found. The token is the number of the first instance of the next one.
func page(found []*instance, p url.Values) (any, error) {
	answer := describeInstances{XMLName: response("DescribeInstances")}
	from, size := 0, len(found)
	if limit := p.Get("MaxResults"); limit != "" {
		size, _ = strconv.Atoi(limit)
		if size < 5 || size > 1000 {
			return nil, refuse("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid.", size)
		}
	}
	if next := p.Get("NextToken"); next != "" {
		at := slices.IndexFunc(found, func(i *instance) bool { return i.id >= next })
		if at < 0 {
			return answer, nil
		}
		from = at
	}
	to := min(from+size, len(found))
	for _, i := range found[from:to] {
		answer.Reservations = append(answer.Reservations, toReservation(i))
	}
	if to < len(found) {
		answer.NextToken = found[to].id
	}
	return answer, nil
}

// terminate is TerminateInstances. An instance that is not listed yet cannot be terminated either.
func (c *Cloud) terminate(p url.Values) (any, error) {
	var chosen []*instance
	for _, id := range values(p, "InstanceId") {
		at := slices.IndexFunc(c.instances, func(i *instance) bool { return i.id == id })
		if at < 0 {
			return nil, refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
		chosen = append(chosen, c.instances[at])
	}
	answer := terminateInstances{XMLName: response("TerminateInstances")}
	for _, i := range chosen {
		was := toState(i.state)
		if i.state != terminated {
			i.state, i.reason = shuttingDown, "Client.UserInitiatedShutdown: User initiated shutdown"
		}
		answer.Instances = append(answer.Instances, stateChange{ID: i.id, Current: toState(i.state), Previous: was})
	}
	return answer, nil
}

// reboot is RebootInstances. It does nothing unless all of them can be rebooted.
func (c *Cloud) reboot(p url.Values) (any, error) {
	ids := values(p, "InstanceId")
	for _, id := range ids {
		at := slices.IndexFunc(c.instances, func(i *instance) bool { return i.id == id && i.state != terminated })
		if at < 0 {
			return nil, refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
		if state := c.instances[at].state; state != running {
			return nil, refuse("IncorrectState", "The instance '%s' is in the '%s' state", id, state)
		}
	}
	c.reboots += len(ids)
	return rebootInstances{XMLName: response("RebootInstances"), Done: true}, nil
}

// console is GetConsoleOutput. Instances of the types of older generations have no latest output.
func (c *Cloud) console(p url.Values) (any, error) {
	id := p.Get("InstanceId")
	at := slices.IndexFunc(c.instances, func(i *instance) bool { return i.id == id })
	if at < 0 {
		return nil, refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
	}
	if kind := c.instances[at].kind; p.Get("Latest") == "true" && strings.HasPrefix(kind, "t2.") {
		return nil, refuse("UnsupportedOperation", "This instance type does not support retrieving the latest console logs. For supported instance types, see the documentation.")
	}
	return consoleOutput{XMLName: response("GetConsoleOutput"), ID: id, Time: c.began.Format(time.RFC3339), Output: base64.StdEncoding.EncodeToString([]byte(c.output))}, nil
}

// attributes returns the attributes that the filters of DescribeInstances match.
func (i *instance) attributes() map[string][]string {
	attributes := map[string][]string{"instance-state-name": {i.state}, "availability-zone": {i.zone}}
	for _, t := range i.tags {
		attributes["tag:"+t.Key] = []string{t.Value}
		attributes["tag-key"] = append(attributes["tag-key"], t.Key)
	}
	return attributes
}

// filters returns a function that reports whether attributes match all filters of a request, each with one of its values.
func filters(p url.Values) func(attributes map[string][]string) bool {
	wanted := map[string][]string{}
	for n := 1; p.Get(fmt.Sprintf("Filter.%d.Name", n)) != ""; n++ {
		wanted[p.Get(fmt.Sprintf("Filter.%d.Name", n))] = values(p, fmt.Sprintf("Filter.%d.Value", n))
	}
	return func(attributes map[string][]string) bool {
		for name, patterns := range wanted {
			if !slices.ContainsFunc(attributes[name], func(attribute string) bool { return matches(patterns, attribute) }) {
				return false
			}
		}
		return true
	}
}

func matches(patterns []string, attribute string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		// EC2's wildcards cross slashes, which those of paths do not.
		ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(attribute, "/", "\x00"))
		return ok && err == nil
	})
}

// values returns a flat list of a request.
func values(p url.Values, name string) (all []string) {
	for n := 1; p.Has(fmt.Sprintf("%s.%d", name, n)); n++ {
		all = append(all, p.Get(fmt.Sprintf("%s.%d", name, n)))
	}
	return all
}
