// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexiafake

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// refusal is an error answer.
type refusal struct {
	status  int
	message string
	fields  map[string]string
}

func (r *refusal) Error() string { return r.message }

func refuse(status int, format string, values ...any) *refusal {
	return &refusal{status: status, message: fmt.Sprintf(format, values...)}
}

func invalid(field, format string, values ...any) *refusal {
	return &refusal{http.StatusUnprocessableEntity, "Validation failed", map[string]string{field: fmt.Sprintf(format, values...)}}
}

// operation is what the Engine does with a request; the parts are those of the path that are variable.
type operation struct {
	method, path string
	query        []string
	do           func(c *Cloud, parts []string, query url.Values, body []byte) (any, error)
}

var operations = []operation{
	{http.MethodPost, `/api/vsphere/v1/provisioning/vm.json/([^/]+)/templates/([^/]+)`, nil, (*Cloud).provision},
	{http.MethodDelete, `/api/vsphere/v1/provisioning/vm.json/([^/]+)`, []string{"delayed"}, (*Cloud).deprovision},
	{http.MethodGet, `/api/vsphere/v1/provisioning/progress.json/([^/]+)`, nil, (*Cloud).progress},
	{http.MethodGet, `/api/vsphere/v1/provisioning/templates.json/([^/]+)/templates`, []string{"page", "limit"}, (*Cloud).listTemplates},
	{http.MethodGet, `/api/vsphere/v1/info.json/([^/]+)/info`, nil, (*Cloud).info},
	{http.MethodGet, `/api/vsphere/v1/search/by_name.json`, []string{"name"}, (*Cloud).search},
	{http.MethodGet, `/api/vsphere/v1/vmlist/list.json`, []string{"page", "limit"}, (*Cloud).list},
	{http.MethodPost, `/api/ipam/v1/address/reserve/ip/count.json`, nil, (*Cloud).reserve},
	{http.MethodGet, `/api/vlan/v1/vlan.json/([^/]+)`, nil, (*Cloud).vlan},
}

var patterns = func() (all []*regexp.Regexp) {
	for _, one := range operations {
		all = append(all, regexp.MustCompile("^"+strings.ReplaceAll(one.path, ".json", `\.json`)+"$"))
	}
	return all
}()

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client closed the connection
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	fault, faulty := c.fault(r)
	if faulty && fault.Status != 0 {
		fail(w, refuse(fault.Status, "%s", http.StatusText(fault.Status)), fault)
		return
	}
	answer, err := c.act(r, body)
	if faulty {
		panic(http.ErrAbortHandler) // which cuts the connection
	}
	if err != nil {
		fail(w, err.(*refusal), Fault{}) //nolint:errorlint,forcetypeassert // all errors are refusals
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client may have closed the connection
}

func fail(w http.ResponseWriter, failed *refusal, fault Fault) {
	if fault.Pause != "" {
		w.Header().Set("Retry-After", fault.Pause)
	}
	if fault.Foreign {
		http.Error(w, "<html>", failed.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(failed.status)
	validation := any([]string{}) // as PHP encodes an empty map
	if len(failed.fields) > 0 {
		validation = failed.fields
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"error": map[string]any{"code": failed.status, "message": failed.message, "validation": validation},
		"debug": map[string]any{"source": ""},
	})
}

// operationOf names a request by its method and its path up to .json.
func operationOf(r *http.Request) string {
	path, _, _ := strings.Cut(r.URL.Path, ".json")
	return r.Method + " " + path + ".json"
}

// fault returns the fault of a request.
func (c *Cloud) fault(r *http.Request) (Fault, bool) {
	name, changes := operationOf(r), r.Method != http.MethodGet
	c.calls[name]++
	if changes {
		c.changes++
	}
	i := slices.IndexFunc(c.faults, func(f Fault) bool {
		return f.Operation == name || f.Operation == "" && (changes || f.Status != 0)
	})
	switch {
	case i < 0 && c.options.Faults != nil:
		return c.options.Faults(changes)
	case i < 0:
		return Fault{}, false
	}
	found := c.faults[i]
	c.faults = slices.Delete(c.faults, i, i+1)
	return found, true
}

// act checks the form of a request and carries it out.
func (c *Cloud) act(r *http.Request, body []byte) (any, error) {
	if r.Header.Get("Authorization") != "Token "+Token {
		return nil, refuse(http.StatusUnauthorized, "Invalid token")
	}
	for i, one := range operations {
		parts := patterns[i].FindStringSubmatch(r.URL.Path)
		if parts == nil || one.method != r.Method {
			continue
		}
		for name := range r.URL.Query() {
			if !slices.Contains(one.query, name) {
				c.violation("%s has the parameter %q", operationOf(r), name)
			}
		}
		if len(body) > 0 && (r.Header.Get("Content-Type") != "application/json" || r.Method == http.MethodGet) {
			c.violation("%s has a body that is not expected", operationOf(r))
		}
		return one.do(c, parts[1:], r.URL.Query(), body)
	}
	c.violation("%s %s is no operation", r.Method, r.URL.Path)
	return nil, refuse(http.StatusNotFound, "No route found")
}

func (c *Cloud) violation(format string, values ...any) {
	c.bad = append(c.bad, fmt.Sprintf(format, values...))
}

// decode reads a body whose fields are all known.
func (c *Cloud) decode(what string, body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		c.violation("%s: %v", what, err)
		return refuse(http.StatusBadRequest, "Invalid body")
	}
	return nil
}

// definition is the body of a provisioning, with the fields of the SDK.
type definition struct {
	Hostname           string `json:"hostname"`
	MemoryMB           int    `json:"memory_mb"`
	CPUs               int    `json:"cpus"`
	DiskGB             int    `json:"disk_gb"`
	DiskType           string `json:"disk_type"`
	CPUPerformanceType string `json:"cpu_performance_type"`
	AvailabilityZone   string `json:"availability_zone"`
	Sockets            int    `json:"sockets"`
	AdditionalDisks    []struct {
		GB   int    `json:"gb"`
		Type string `json:"type"`
	} `json:"additional_disks"`
	Network []struct {
		NICType        string   `json:"nic_type"`
		VLAN           string   `json:"vlan"`
		IPs            []string `json:"ips"`
		BandwidthLimit int      `json:"bandwidth_limit"`
	} `json:"network"`
	DNS1           string `json:"dns1"`
	DNS2           string `json:"dns2"`
	DNS3           string `json:"dns3"`
	DNS4           string `json:"dns4"`
	Password       string `json:"password"`
	SSH            string `json:"ssh"`
	Script         string `json:"script"`
	BootDelay      int    `json:"boot_delay"`
	EnterBIOSSetup bool   `json:"enter_bios_setup"`
	Organization   string `json:"organization"`
}

var (
	hostPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	diskTypes   = []string{"", "STD1", "ENT2", "HPC1"}
	cpuTypes    = []string{"", "best-effort", "standard", "enterprise", "performance"}
	nicTypes    = []string{"", oldNIC, "virtio"}
)

// oldNIC is the type of interface with which a provisioning is accepted and never ends: the Engine supports it no longer.
const oldNIC = "vmxnet3"

// check returns what is wrong with a definition.
func (d definition) check() error {
	script, err := base64.StdEncoding.DecodeString(d.Script)
	switch {
	case !hostPattern.MatchString(d.Hostname):
		return invalid("hostname", "is no host name")
	case d.MemoryMB < 512 || d.MemoryMB > 1<<20:
		return invalid("memory_mb", "is out of range")
	case d.CPUs < 1 || d.CPUs > 64:
		return invalid("cpus", "is out of range")
	case d.DiskGB < 1 || d.DiskGB > 10000:
		return invalid("disk_gb", "is out of range")
	case d.Sockets > 0 && d.CPUs%d.Sockets != 0:
		return invalid("sockets", "do not divide the cores")
	case d.SSH == "" && d.Password == "":
		return invalid("ssh", "a key or a password is required")
	case err != nil || len(script) == 0:
		return invalid("script", "is not Base64")
	default:
		return d.checkTypes()
	}
}

// checkTypes returns which type of a definition does not exist.
func (d definition) checkTypes() error {
	switch {
	case !slices.Contains(diskTypes, d.DiskType):
		return invalid("disk_type", "is unknown")
	case !slices.Contains(cpuTypes, d.CPUPerformanceType):
		return invalid("cpu_performance_type", "is unknown")
	case !slices.Contains([]string{"", ZoneA, ZoneB}, d.AvailabilityZone):
		return invalid("availability_zone", "is unknown")
	}
	for _, disk := range d.AdditionalDisks {
		if disk.GB < 1 || disk.Type == "" || !slices.Contains(diskTypes, disk.Type) {
			return invalid("additional_disks", "are unknown")
		}
	}
	return nil
}

// isEndless reports whether the provisioning of a definition never ends.
func (d definition) isEndless() bool {
	for _, network := range d.Network {
		if network.NICType == oldNIC {
			return true
		}
	}
	return false
}

func (c *Cloud) provision(parts []string, _ url.Values, body []byte) (any, error) {
	wanted, request := definition{}, map[string]any{}
	if err := c.decode("the definition of a virtual machine", body, &wanted); err != nil {
		return nil, err
	}
	_ = json.Unmarshal(body, &request) // it was decoded above
	build := slices.IndexFunc(templates, func(t map[string]string) bool { return t["id"] == parts[1] })
	switch err := wanted.check(); {
	case parts[0] != Location || build < 0:
		return nil, refuse(http.StatusNotFound, "Location or template not found")
	case err != nil:
		return nil, err
	}
	made := &machine{
		id: c.newID(), name: Customer + "-" + wanted.Hostname, status: "poweredOn", location: parts[0], template: parts[1],
		zone: wanted.AvailabilityZone, request: request, unlisted: c.options.ListDelay, unread: c.options.InfoDelay, unaddressed: c.options.AddressDelay,
	}
	var used []*address
	for _, network := range wanted.Network {
		if network.VLAN != VLAN && network.VLAN != OtherVLAN || !slices.Contains(nicTypes, network.NICType) {
			return nil, invalid("network[0].vlan", "is unknown")
		}
		bound := boundNetwork{}
		for _, ip := range network.IPs {
			found := c.reserved(ip, network.VLAN)
			if found == nil || slices.Contains(used, found) {
				return nil, invalid("network[0].ips", "%s is not reserved", ip)
			}
			used = append(used, found)
			bound.v4 = append(bound.v4, ip)
		}
		made.networks = append(made.networks, bound)
	}
	for _, one := range used {
		one.used = made.id
	}
	if c.hide {
		c.hide, made.unlisted = false, 6
	}
	running := &task{id: c.newID(), vm: made.id, made: made, endless: wanted.isEndless()}
	if len(c.failures) > 0 {
		running.failure, c.failures = &c.failures[0], c.failures[1:]
	}
	if unnamed := c.unnamed; len(unnamed) > 0 {
		c.unnamed = nil
		c.release(made.id)
		return map[string]any{"progress": 0, "errors": unnamed, "identifier": "", "queued": false}, nil
	}
	c.tasks[running.id] = running
	return map[string]any{"progress": 0, "errors": []string{}, "identifier": running.id, "queued": true}, nil
}

func (c *Cloud) reserved(ip, vlan string) *address {
	for _, one := range c.addresses {
		if !c.options.TakeAddresses && one.ip == ip && one.vlan == vlan && one.used == "" && one.until.After(c.options.Now()) {
			return one
		}
	}
	return nil
}

func (c *Cloud) deprovision(parts []string, query url.Values, _ []byte) (any, error) {
	if query.Get("delayed") != "false" {
		c.violation("a removal is delayed by a day")
	}
	if c.vms[parts[0]] == nil {
		return nil, refuse(http.StatusNotFound, "Virtual machine not found")
	}
	for _, running := range c.tasks {
		if running.removal && running.vm == parts[0] && !c.over(running) && !c.options.RepeatRemovals {
			return nil, refuse(http.StatusConflict, "Another task is running")
		}
	}
	running := &task{id: c.newID(), vm: parts[0], removal: true}
	c.tasks[running.id] = running
	return map[string]any{"identifier": running.id, "delete_will_be_executed_at": ""}, nil
}

func (c *Cloud) progress(parts []string, _ url.Values, _ []byte) (any, error) {
	running := c.tasks[parts[0]]
	if running == nil {
		return nil, refuse(http.StatusNotFound, "Task not found")
	}
	c.advance(running)
	answer := map[string]any{"identifier": running.id, "queued": running.reads == 1, "progress": 50, "vm_identifier": "", "errors": []string{}, "status": "2"}
	switch {
	case !c.over(running):
	case running.failure != nil:
		answer["status"], answer["errors"] = running.failure.Status, running.failure.Errors
		if running.failure.Named || running.failure.Complete {
			answer["vm_identifier"] = running.vm
		}
		if running.failure.Complete {
			answer["progress"] = 100
		}
	default:
		answer["status"], answer["progress"], answer["vm_identifier"] = "1", 100, running.vm
	}
	return answer, nil
}

func (c *Cloud) info(parts []string, _ url.Values, _ []byte) (any, error) {
	for _, running := range c.tasks {
		if running.removal && running.vm == parts[0] && !c.over(running) {
			c.advance(running)
		}
	}
	one := c.vms[parts[0]]
	if one == nil || c.isHidden(parts[0]) {
		return nil, refuse(http.StatusNotFound, "Virtual machine not found")
	}
	if one.broken {
		return nil, refuse(http.StatusInternalServerError, "Internal error")
	}
	if one.unread > 0 {
		one.unread--
		return nil, refuse(http.StatusNotFound, "Virtual machine not found")
	}
	networks, bound := []map[string]any{}, one.networks
	if one.unaddressed > 0 {
		one.unaddressed--
		bound = nil
	}
	for i, bound := range bound {
		networks = append(networks, map[string]any{"nic": 1, "id": 4000 + i, "vlan": VLAN, "mac_address": "00:50:56:00:00:01", "ips_v4": bound.v4, "ips_v6": append(bound.v6, "fe80::1")})
	}
	answer := map[string]any{
		"name": one.name, "custom_name": "", "identifier": one.id, "status": one.status, "location_identifier": one.location,
		"template_id": one.template, "template_type": "templates", "network": networks, "availability_zone": nil,
	}
	if one.zone != "" {
		answer["availability_zone"] = map[string]any{"identifier": one.zone, "name": "Zone"}
	}
	return answer, nil
}

func summary(found []*machine) map[string]any {
	data := []map[string]any{}
	for _, one := range found {
		data = append(data, map[string]any{"name": one.name, "custom_name": "", "identifier": one.id, "location_code": "ANX04", "tags": ""})
	}
	return map[string]any{"data": data}
}

func (c *Cloud) search(_ []string, query url.Values, _ []byte) (any, error) {
	return summary(c.find(c.matchesSearch(query.Get("name")))), nil
}

func (c *Cloud) list(_ []string, query url.Values, _ []byte) (any, error) {
	number, size := count(query, "page"), count(query, "limit")
	if number < 1 || size < 1 || size > 1000 {
		return nil, refuse(http.StatusBadRequest, "Invalid page")
	}
	if c.options.PageSize > 0 {
		size = min(size, c.options.PageSize)
	}
	found := c.find(func(string) bool { return true })
	begin := min((number-1)*size, len(found))
	return summary(found[begin:min(begin+size, len(found))]), nil
}

func count(query url.Values, name string) int {
	n, _ := strconv.Atoi(query.Get(name)) // zero is refused
	return n
}

var templates = []map[string]string{
	{"id": TemplateOld, "name": Template, "bit": "64", "build": "b9"},
	{"id": TemplateNew, "name": Template, "bit": "64", "build": "b74"},
	{"id": TemplateOdd, "name": Template, "bit": "64", "build": "beta"},
	{"id": "c3d4f0a6-978a-49fb-a952-7361bf531e4f", "name": "Debian 9", "bit": "64", "build": "b92"},
	{"id": "844ac596-5f62-4ed2-936e-b99ffe0d4f88", "name": "Unnumbered", "bit": "64", "build": "x"},
}

func (c *Cloud) listTemplates(parts []string, _ url.Values, _ []byte) (any, error) {
	if parts[0] != Location {
		return nil, refuse(http.StatusNotFound, "Location not found")
	}
	return templates, nil
}

func (c *Cloud) reserve(_ []string, _ url.Values, body []byte) (any, error) {
	wanted := struct {
		Location string `json:"location_identifier"`
		VLAN     string `json:"vlan_identifier"`
		Count    int    `json:"count"`
		Prefix   string `json:"prefix_identifier"`
		Version  int    `json:"ip_version"`
		Seconds  int    `json:"reservation_period"`
	}{}
	if err := c.decode("a reservation", body, &wanted); err != nil {
		return nil, err
	}
	switch {
	case wanted.Location != Location:
		return nil, invalid("location_identifier", "is unknown")
	case wanted.VLAN != VLAN && wanted.VLAN != OtherVLAN:
		return nil, invalid("vlan_identifier", "is unknown")
	case !slices.Contains([]string{"", Prefix, PublicPrefix, FullPrefix}, wanted.Prefix):
		return nil, invalid("prefix_identifier", "is unknown")
	case wanted.Count != 1 || wanted.Seconds < 60:
		c.violation("a reservation of %d addresses for %d seconds", wanted.Count, wanted.Seconds)
	}
	data, now := []map[string]any{}, c.options.Now()
	for _, one := range c.sortedAddresses() {
		if one.vlan == wanted.VLAN && (wanted.Prefix == "" || one.prefix == wanted.Prefix) && one.used == "" && !one.until.After(now) {
			one.until = now.Add(time.Duration(wanted.Seconds) * time.Second)
			data = append(data, map[string]any{"identifier": one.id, "text": one.ip, "prefix": one.prefix})
			break
		}
	}
	return map[string]any{"limit": 1, "page": 1, "total_items": len(data), "total_pages": 1, "data": data}, nil
}

func (c *Cloud) sortedAddresses() []*address {
	var all []*address
	for _, one := range c.addresses {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *address) int { return strings.Compare(a.prefix+a.ip, b.prefix+b.ip) })
	return all
}

func (c *Cloud) vlan(parts []string, _ url.Values, _ []byte) (any, error) {
	if parts[0] != VLAN && parts[0] != OtherVLAN {
		return nil, refuse(http.StatusNotFound, "VLAN not found")
	}
	return map[string]any{"identifier": parts[0], "name": "VLAN", "status": "Active", "vm_provisioning": true}, nil
}
