// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcdfake

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"github.com/vmware/go-vcloud-director/v3/types/v56"
)

// refusal is an answer that reports a failure.
type refusal struct {
	status        int
	code, message string
	headers       map[string]string
}

func (r *refusal) Error() string { return r.code }

func refuse(status int, code, format string, args ...any) *refusal {
	return &refusal{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

func forbidden(what string) *refusal {
	return refuse(http.StatusForbidden, "ACCESS_TO_RESOURCE_IS_FORBIDDEN", "Either you need some or all of the following rights [Base] to perform operations [%s], or the target entity is invalid.", what)
}

// call is a request that is authorized.
type call struct {
	*http.Request
	// id is the part of the path that is the ID.
	id    string
	query url.Values
	body  []byte
}

// route is an operation.
type route struct {
	method string
	path   *regexp.Regexp
	name   string
	// contentType is that of the request; empty for one without a body.
	contentType string
	json        bool
	do          func(*Cloud, call) (any, error)
}

const anyID = `([0-9a-f-]{36})`

func at(method, path, name, contentType string, do func(*Cloud, call) (any, error)) route {
	return route{method: method, path: regexp.MustCompile("^" + path + "$"), name: name, contentType: contentType, json: strings.HasPrefix(path, "/cloudapi/"), do: do}
}

var routes = []route{
	at("GET", "/api/org", "organizations", "", (*Cloud).organizations),
	at("GET", "/api/org/"+anyID, "organization", "", (*Cloud).organization),
	at("GET", "/api/vdc/"+anyID, "vdc", "", (*Cloud).vdc),
	at("GET", "/api/query", "query", "", (*Cloud).list),
	at("GET", "/api/catalog/"+anyID, "catalog", "", (*Cloud).catalog),
	at("GET", "/api/catalogItem/"+anyID, "catalogItem", "", (*Cloud).catalogItem),
	at("GET", "/api/vAppTemplate/vappTemplate-"+anyID, "template", "", (*Cloud).template),
	at("GET", "/cloudapi/2.0.0/vdcs/urn:vcloud:vdc:"+anyID+"/computePolicies", "policies", "", (*Cloud).listPolicies),
	at("GET", "/api/task/"+anyID, "task", "", (*Cloud).task),
	at("GET", "/api/vApp/vapp-"+anyID, "vApp", "", (*Cloud).vApp),
	at("GET", "/api/vApp/vm-"+anyID, "vm", "", (*Cloud).vm),
	at("GET", "/api/vApp/vm-"+anyID+"/metadata", "metadata", "", (*Cloud).readMetadata),
	at("GET", "/api/vApp/vm-"+anyID+"/productSections", "productSections", "", (*Cloud).readProductSections),
	at("POST", "/api/vApp/vapp-"+anyID+"/action/recomposeVApp", "recompose", types.MimeRecomposeVappParams, (*Cloud).recompose),
	at("POST", "/api/vApp/vm-"+anyID+"/action/reconfigureVm", "reconfigure", types.MimeVM, (*Cloud).reconfigure),
	at("PUT", "/api/vApp/vm-"+anyID+"/productSections", "setProductSections", types.MimeProductSection, (*Cloud).setProductSections),
	at("POST", "/api/vApp/vm-"+anyID+"/metadata", "setMetadata", types.MimeMetaData, (*Cloud).setMetadata),
	at("POST", "/api/vApp/vm-"+anyID+"/power/action/powerOn", "powerOn", "", (*Cloud).powerOn),
	at("POST", "/api/vApp/vm-"+anyID+"/power/action/reset", "reset", "", (*Cloud).reset),
	at("POST", "/api/vApp/vm-"+anyID+"/action/undeploy", "undeploy", types.MimeUndeployVappParams, (*Cloud).undeploy),
	at("POST", "/api/vApp/vm-"+anyID+"/action/discardSuspendedState", "discard", "", (*Cloud).discard),
	at("POST", "/api/vApp/vm-"+anyID+"/disk/action/detach", "detach", types.MimeDiskAttachOrDetachParams, (*Cloud).detach),
	at("DELETE", "/api/vApp/vm-"+anyID, "delete", "", (*Cloud).remove),
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client closed the connection
	}
	if c.logIn(w, r, body) {
		return
	}
	c.mu.Lock()
	found, id := c.route(r)
	lost, answer, err := c.carryOut(r, found, id, body)
	switch {
	case lost:
	case err != nil:
		fail(w, found.json, err)
	default:
		write(w, found.json, found.method, answer)
	}
	c.mu.Unlock()
	if lost {
		panic(http.ErrAbortHandler) // which cuts the connection
	}
}

func (c *Cloud) route(r *http.Request) (found route, id string) {
	for _, known := range routes {
		if parts := known.path.FindStringSubmatch(r.URL.Path); parts != nil && known.method == r.Method {
			return known, parts[len(parts)-1]
		}
	}
	return route{name: "unknown"}, ""
}

// carryOut carries a request out, unless a fault prevents that.
func (c *Cloud) carryOut(r *http.Request, found route, id string, body []byte) (lost bool, answer any, err error) {
	c.requests++
	c.counts[found.name]++
	change := r.Method != http.MethodGet
	if change {
		c.changes++
	}
	c.endTasks()
	fault := c.fault(found, change)
	if fault.Code != "" && !fault.Lost {
		return false, nil, &refusal{fault.Status, fault.Code, fault.Message, fault.Headers}
	}
	if !c.sessions[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] {
		return fault.Lost, nil, refuse(http.StatusUnauthorized, "UNAUTHORIZED", "This operation is denied.")
	}
	c.check(r, found, body)
	if found.do == nil {
		return fault.Lost, nil, forbidden(r.URL.Path)
	}
	answer, err = found.do(c, call{Request: r, id: id, query: r.URL.Query(), body: body})
	return fault.Lost, answer, err
}

// fault returns the fault of a request.
func (c *Cloud) fault(of route, change bool) Fault {
	for i, fault := range c.nextFaults {
		if fault.Operation != "" && of.name != fault.Operation || fault.Lost && !change {
			continue
		}
		c.nextFaults = append(c.nextFaults[:i:i], c.nextFaults[i+1:]...)
		return fault
	}
	return c.options.Faults(change)
}

// check adds a violation for a request without the headers that each needs, or to no operation.
func (c *Cloud) check(r *http.Request, found route, body []byte) {
	accepted := "application/*+xml;version=39.0"
	if found.json {
		accepted = "application/json;version=39.0"
	}
	if got := r.Header.Get("Accept"); got != accepted {
		c.violate("%s %s: Accept is %q", r.Method, r.URL.Path, got)
	}
	if got := r.Header.Get("Content-Type"); got != found.contentType || (len(body) > 0) != (found.contentType != "") {
		c.violate("%s %s: Content-Type is %q, want %q for %d bytes", r.Method, r.URL.Path, got, found.contentType, len(body))
	}
	if found.do == nil {
		c.violate("%s %s: there is no such operation", r.Method, r.URL.Path)
	}
}

func (c *Cloud) violate(format string, args ...any) {
	c.violations = append(c.violations, fmt.Sprintf(format, args...))
}

// decode reads a request. It is a violation if the type has not all that is in it, in the order of the schema.
func decode[T any](c *Cloud, body []byte) (*T, error) {
	into := new(T)
	if err := xml.Unmarshal(body, into); err != nil {
		c.violate("decoding %T: %v", into, err)
		return nil, refuse(http.StatusBadRequest, "BAD_REQUEST", "Bad request - Unexpected JAXB Exception")
	}
	again, err := xml.Marshal(into)
	if err != nil {
		return nil, err
	}
	if sent, known := outline(body), outline(again); sent != known {
		c.violate("%T has not all of the request, in this order:\nsent  %s\nknown %s", into, sent, known)
	}
	return into, nil
}

// outline returns the names of the elements of a document and their texts, but for the Info of a section, which the types of the
// SDK write and do not read.
func outline(document []byte) string {
	var out strings.Builder
	decoder := xml.NewDecoder(bytes.NewReader(document))
	for info := false; ; {
		token, err := decoder.Token()
		if err != nil {
			return out.String()
		}
		switch token := token.(type) {
		case xml.StartElement:
			if info = token.Name.Local == "Info"; info {
				continue
			}
			fmt.Fprintf(&out, " <%s", token.Name.Local)
			for _, attribute := range token.Attr {
				if attribute.Name.Space != "xmlns" && attribute.Name.Local != "xmlns" {
					fmt.Fprintf(&out, " %s=%q", attribute.Name.Local, attribute.Value)
				}
			}
			out.WriteString(">")
		case xml.EndElement:
			info = false
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" && !info {
				out.WriteString(text)
			}
		}
	}
}

// logIn carries out what needs no session.
func (c *Cloud) logIn(w http.ResponseWriter, r *http.Request, body []byte) bool {
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/api/versions":
		w.Header().Set("Content-Type", "text/xml")
		fmt.Fprint(w, `<SupportedVersions xmlns="http://www.vmware.com/vcloud/versions"><VersionInfo deprecated="false"><Version>38.0</Version><LoginUrl>`+publicURL+
			`/cloudapi/1.0.0/sessions</LoginUrl></VersionInfo><VersionInfo deprecated="false"><Version>39.0</Version></VersionInfo><VersionInfo><Version>40.0.0-alpha</Version></VersionInfo></SupportedVersions>`)
	case r.Method == http.MethodPost && r.URL.Path == "/cloudapi/1.0.0/sessions":
		if user, password, _ := r.BasicAuth(); user != User+"@"+Organization || password != Password {
			fail(w, true, refuse(http.StatusUnauthorized, "UNAUTHORIZED", "[ %s ] Invalid credentials", uuid.NewString()))
			return true
		}
		w.Header().Set("X-Vmware-Vcloud-Access-Token", c.newSession())
		write(w, true, r.Method, map[string]any{"id": "urn:vcloud:session:1"})
	case r.Method == http.MethodPost && r.URL.Path == "/oauth/tenant/"+Organization+"/token":
		form, _ := url.ParseQuery(string(body))
		if form.Get("grant_type") != "refresh_token" || form.Get("refresh_token") != APIToken {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid_grant","error_description":"The refresh token is unknown"}`)
			return true
		}
		write(w, true, http.MethodGet, types.ApiTokenRefresh{AccessToken: c.newSession(), TokenType: "Bearer", ExpiresIn: 2592000})
	default:
		return false
	}
	return true
}

func (c *Cloud) newSession() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts["login"]++
	token := uuid.NewString()
	c.sessions[token] = true
	return token
}

func write(w http.ResponseWriter, asJSON bool, method string, answer any) {
	status := http.StatusOK
	if _, ok := answer.(*types.Task); ok && method != http.MethodGet {
		status = http.StatusAccepted
	}
	if asJSON {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // the client may have closed the connection
		return
	}
	text, err := xml.Marshal(answer)
	if err != nil {
		panic(err) // the types of the SDK can be written
	}
	w.Header().Set("Content-Type", "application/vnd.vmware.vcloud.any+xml;version=39.0")
	w.WriteHeader(status)
	_, _ = w.Write(append([]byte(xml.Header), text...))
}

func fail(w http.ResponseWriter, asJSON bool, err error) {
	failed, ok := errors.AsType[*refusal](err)
	if !ok {
		failed = refuse(http.StatusInternalServerError, "INTERNAL_SERVER_ERROR", "%v", err)
	}
	for key, value := range failed.headers {
		w.Header().Set(key, value)
	}
	if asJSON {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(failed.status)
		_ = json.NewEncoder(w).Encode(types.OpenApiError{MinorErrorCode: failed.code, Message: failed.message})
		return
	}
	w.Header().Set("Content-Type", "application/vnd.vmware.vcloud.error+xml;version=39.0")
	w.WriteHeader(failed.status)
	text, _ := xml.Marshal(&types.Error{Message: fmt.Sprintf("[ %s ] %s", uuid.NewString(), failed.message), MajorErrorCode: failed.status, MinorErrorCode: failed.code})
	_, _ = w.Write(text)
}
