// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibabafake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	openapiutil "github.com/alibabacloud-go/darabonba-openapi/v2/utils"
	"github.com/alibabacloud-go/tea/dara"

	"drover.io/infra-providers/alibaba/alibabafake/model"
)

// refusal is an error answer.
type refusal struct {
	status  int
	code    string
	message string
	headers map[string]string
}

func (r *refusal) Error() string { return r.code }

func refuse(status int, code, format string, args ...any) *refusal {
	return &refusal{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

// maxURL is how many bytes a URL may have. That of the real servers is not published; longer ones are refused by the proxy in
// front of the API.
const maxURL = 8 << 10

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(r.RequestURI) > maxURL {
		http.Error(w, "<html><head><title>414 Request-URI Too Large</title></head></html>", http.StatusRequestURITooLong)
		return
	}
	action := r.Header.Get("x-acs-action")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client closed the connection
	}
	parameters := r.URL.Query()
	if form, err := url.ParseQuery(string(body)); err == nil {
		for name, values := range form {
			parameters[name] = append(parameters[name], values...)
		}
	}
	fault := c.fault(action)
	if isCreationCode(fault.Code) && c.isRepeated(parameters) && !c.options.CheckFirst {
		fault = Fault{} // a repeated request needs no stock
	}
	if fault.Code != "" && !fault.Lost {
		failed := &refusal{max(fault.Status, http.StatusBadRequest), fault.Code, fault.Message, fault.Headers}
		if isCreationCode(fault.Code) {
			c.refuseCreation(parameters, failed)
		}
		c.fail(w, failed)
		return
	}
	answer, err := c.act(r, action, parameters, body)
	if fault.Lost {
		panic(http.ErrAbortHandler) // which cuts the connection
	}
	if err != nil {
		c.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json;charset=utf-8")
	_ = json.NewEncoder(w).Encode(c.withRequestID(answer)) // the client may have closed the connection
}

// IsChange reports whether an action changes something in the cloud.
func IsChange(action string) bool {
	return slices.Contains([]string{"RunInstances", "DeleteInstance", "RebootInstance", "TagResources", "ModifyDiskAttribute"}, action)
}

// fault returns the fault of a call.
func (c *Cloud) fault(action string) Fault {
	c.mu.Lock()
	c.counts[action]++
	if IsChange(action) {
		c.changes++
	}
	for i, fault := range c.nextFaults {
		creation := isCreationCode(fault.Code)
		if action == "RunInstances" || IsChange(action) && !creation || !fault.Lost && fault.Code != "" && !creation {
			c.nextFaults = slices.Delete(c.nextFaults, i, i+1)
			c.mu.Unlock()
			return fault
		}
	}
	c.mu.Unlock()
	return c.options.Faults(action)
}

// isCreationCode reports whether a code is an answer to RunInstances only.
func isCreationCode(code string) bool {
	for _, prefix := range []string{"OperationDenied.", "QuotaExceed", "Idempotent", "InvalidRamRole", "InvalidVSwitchId"} {
		if strings.HasPrefix(code, prefix) {
			return true
		}
	}
	return false
}

// act checks the signature and the parameters of a request and carries it out.
func (c *Cloud) act(r *http.Request, action string, parameters url.Values, body []byte) (any, error) {
	key, err := c.checkSignature(r, action, body)
	if err != nil {
		return nil, err
	}
	if err := c.model.CheckRequest(action, parameters); err != nil {
		c.addViolation(fmt.Errorf("%s: %w", action, err))
		invalid, _ := errors.AsType[*model.Error](err)
		return nil, refuse(http.StatusBadRequest, invalid.Code, "%s: %s", invalid.Name, invalid.What)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch dry := parameters.Get("DryRun") == "true"; {
	case dry && c.forbidden[action]:
		return nil, refuse(http.StatusForbidden, "Forbidden.RAM", "User not authorized to operate on the specified resource.")
	case dry:
		return nil, refuse(http.StatusBadRequest, "DryRunOperation", "Request validation has been passed with DryRun flag set.")
	case c.forbidden[action]:
		return map[string]any{"Instances": struct{}{}, "Disks": struct{}{}}, nil
	}
	return c.carryOut(key, action, parameters)
}

// carryOut carries out a request that is well formed and permitted.
func (c *Cloud) carryOut(key secret, action string, parameters url.Values) (any, error) {
	switch action {
	case "RunInstances":
		return c.run(parameters)
	case "DescribeInstances":
		return c.describe(parameters)
	case "DescribeDisks":
		return c.describeDisks(parameters)
	case "DeleteInstance":
		return c.release(parameters)
	case "ModifyDiskAttribute":
		return c.modifyDisk(parameters)
	case "RebootInstance":
		return c.reboot(parameters)
	case "GetInstanceConsoleOutput":
		return c.console(parameters)
	case "TagResources":
		return c.tag(parameters)
	case "DescribeImages":
		return describeImages(parameters), nil
	case "DescribeInstanceTypes":
		return describeTypes(parameters), nil
	case "GetCallerIdentity":
		return map[string]any{"AccountId": key.account, "Arn": "acs:ram::" + key.account + ":user/drover", "IdentityType": "RAMUser"}, nil
	default:
		return c.assumeRole(parameters)
	}
}

// The RAM role of a ServiceAccount, the token with which it is assumed, and the access key that is the answer.
const (
	Role         = "acs:ram::" + Account + ":role/drover"
	OIDCProvider = "acs:ram::" + Account + ":oidc-provider/cluster"
	OIDCToken    = "token-of-the-service-account"
	TemporaryKey = "STS.Fake"
)

// assumeRole is AssumeRoleWithOIDC, which has no signature.
func (c *Cloud) assumeRole(p url.Values) (any, error) {
	if p.Get("OIDCToken") != OIDCToken || p.Get("RoleArn") != Role || p.Get("OIDCProviderArn") != OIDCProvider {
		return nil, refuse(http.StatusBadRequest, "AuthenticationFail.OIDCToken.Invalid", "This JWT is invalid.")
	}
	c.keys[TemporaryKey] = secret{"temporary-secret", "temporary-token", Account}
	return map[string]any{"Credentials": map[string]any{
		"AccessKeyId": TemporaryKey, "AccessKeySecret": "temporary-secret", "SecurityToken": "temporary-token", "Expiration": "2099-01-01T00:00:00Z",
	}}, nil
}

// checkSignature requires a signature of version 3 with a known key.
func (c *Cloud) checkSignature(r *http.Request, action string, body []byte) (secret, error) {
	if action == "AssumeRoleWithOIDC" {
		return secret{}, nil
	}
	_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	id, _, _ := strings.Cut(rest, ",")
	c.mu.Lock()
	known, ok := c.keys[id]
	c.mu.Unlock()
	switch {
	case !ok:
		return secret{}, refuse(http.StatusNotFound, "InvalidAccessKeyId.NotFound", "Specified access key is not found.")
	case known.token != r.Header.Get("x-acs-security-token"):
		return secret{}, refuse(http.StatusBadRequest, "InvalidSecurityToken.MismatchWithAccessKey", "Specified SecurityToken mismatch with the AccessKey.")
	}
	signed := dara.NewRequest()
	signed.Method, signed.Pathname = &r.Method, &r.URL.Path
	for name := range r.URL.Query() {
		signed.Query[name] = dara.String(r.URL.Query().Get(name))
	}
	for name := range r.Header {
		signed.Headers[strings.ToLower(name)] = dara.String(r.Header.Get(name))
	}
	signed.Headers["host"] = &r.Host
	algorithm := dara.String("ACS3-HMAC-SHA256")
	payload := fmt.Sprintf("%x", openapiutil.Hash(body, algorithm))
	if want := openapiutil.GetAuthorization(signed, algorithm, &payload, &id, &known.secret); *want != r.Header.Get("Authorization") {
		return secret{}, refuse(http.StatusBadRequest, "SignatureDoesNotMatch", "Specified signature is not matched with our calculation.")
	}
	return known, nil
}

func (c *Cloud) addViolation(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violations = append(c.violations, err.Error())
}

// withRequestID adds a request ID, another one each time, as each answer has.
func (c *Cloud) withRequestID(answer any) map[string]any {
	c.mu.Lock()
	c.serial++
	id := c.serial
	c.mu.Unlock()
	written, _ := json.Marshal(answer) // types of the SDK, or texts
	with := map[string]any{}
	_ = json.Unmarshal(written, &with)
	with["RequestId"] = fmt.Sprintf("473469C7-AA6F-4DC5-B3DB-%012X", id)
	return with
}

// fail answers with an error.
func (c *Cloud) fail(w http.ResponseWriter, err error) {
	answer, ok := errors.AsType[*refusal](err)
	if !ok {
		answer = refuse(http.StatusInternalServerError, "InternalError", "%v", err)
	}
	for name, value := range answer.headers {
		w.Header()[name] = []string{value}
	}
	w.Header().Set("Content-Type", "application/json;charset=utf-8")
	w.WriteHeader(answer.status)
	body := c.withRequestID(map[string]any{"Code": answer.code, "Message": answer.message, "HostId": "ecs." + Region + ".aliyuncs.com"})
	_ = json.NewEncoder(w).Encode(body) // the client may have closed the connection
}
