// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package awsfake

import (
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"drover.io/infra-providers/aws/awsfake/model"
)

// refusal is an error answer.
type refusal struct {
	status  int
	code    string
	message string
}

func (r *refusal) Error() string { return r.code }

func refuse(code, format string, args ...any) error {
	return &refusal{http.StatusBadRequest, code, fmt.Sprintf(format, args...)}
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		c.fail(w, "", &refusal{http.StatusBadRequest, "MalformedQueryString", err.Error()})
		return
	}
	action := r.PostForm.Get("Action")
	fault := c.fault(action)
	if isCreationCode(fault.Code) && c.isRepeated(r.PostForm) {
		fault = Fault{} // a repeated request needs no capacity
	}
	if fault.Code != "" && !fault.Lost {
		c.fail(w, action, &refusal{max(fault.Status, http.StatusBadRequest), fault.Code, fault.Message})
		return
	}
	body, err := c.act(r, action)
	if fault.Lost {
		panic(http.ErrAbortHandler) // which cuts the connection
	}
	if err != nil {
		c.fail(w, action, err)
		return
	}
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	_, _ = w.Write(body) // the client may have closed the connection
}

// fault returns the fault of a call.
func (c *Cloud) fault(action string) Fault {
	c.mu.Lock()
	c.counts[action]++
	changes := action == "RunInstances" || action == "TerminateInstances" || action == "RebootInstances" || action == "CreateTags"
	for i, fault := range c.nextFaults {
		if changes || !fault.Lost && fault.Code != "" && !isCreationCode(fault.Code) {
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
	return code == "InsufficientInstanceCapacity" || code == "InsufficientFreeAddressesInSubnet" || code == "VcpuLimitExceeded"
}

// act checks the signature and the parameters of a request and carries it out.
func (c *Cloud) act(r *http.Request, action string) ([]byte, error) {
	if err := checkSignature(r, serviceOf(action)); err != nil {
		return nil, err
	}
	if serviceOf(action) == "sts" {
		return xml.Marshal(c.callerIdentity())
	}
	if err := c.model.CheckRequest(action, r.PostForm); err != nil {
		c.addViolation(err)
		invalid, _ := errors.AsType[*model.Error](err)
		return nil, refuse(invalid.Code, "%s: %s", invalid.Path, invalid.What)
	}
	c.mu.Lock()
	answer, err := c.dispatch(action, r.PostForm)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	body, err := xml.Marshal(answer)
	if err != nil {
		return nil, err
	}
	if err := c.model.CheckAnswer(action, body); err != nil {
		c.addViolation(fmt.Errorf("answering %s: %w", action, err))
		return nil, err
	}
	return body, nil
}

func (c *Cloud) dispatch(action string, parameters url.Values) (any, error) {
	switch action {
	case "RunInstances":
		return c.run(parameters)
	case "DescribeInstances":
		return c.describe(parameters)
	case "TerminateInstances":
		return c.terminate(parameters)
	case "RebootInstances":
		return c.reboot(parameters)
	case "GetConsoleOutput":
		return c.console(parameters)
	case "DescribeTags":
		return c.listTags(parameters), nil
	case "CreateTags":
		return c.tag(parameters)
	case "DescribeImages":
		return describeImagesOf(parameters)
	case "DescribeSubnets":
		return c.subnets(parameters), nil
	case "DescribeSecurityGroups":
		return securityGroups(parameters), nil
	default:
		return instanceTypes(parameters)
	}
}

// serviceOf returns the service of an action. The fake serves all of them at one address.
func serviceOf(action string) string {
	if action == "GetCallerIdentity" {
		return "sts"
	}
	return "ec2"
}

type callerIdentity struct {
	XMLName xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ GetCallerIdentityResponse"`
	ARN     string   `xml:"GetCallerIdentityResult>Arn"`
	UserID  string   `xml:"GetCallerIdentityResult>UserId"`
	Account string   `xml:"GetCallerIdentityResult>Account"`
}

func (c *Cloud) callerIdentity() callerIdentity {
	return callerIdentity{ARN: "arn:aws:iam::" + Account + ":user/drover", UserID: AccessKey, Account: Account}
}

// checkSignature requires a signature of version 4 with the known key, for this region and service.
func checkSignature(r *http.Request, service string) error {
	_, credential, ok := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	scope := strings.Split(credential, "/")
	switch {
	case !ok || len(scope) < 5:
		return &refusal{http.StatusUnauthorized, "AuthFailure", "AWS was not able to validate the provided access credentials"}
	case scope[0] != AccessKey:
		return &refusal{http.StatusUnauthorized, "AuthFailure", "AWS was not able to validate the provided access credentials"}
	case scope[2] != Region || scope[3] != service:
		return &refusal{http.StatusForbidden, "SignatureDoesNotMatch", "Credential should be scoped to another region"}
	}
	return nil
}

func (c *Cloud) addViolation(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violations = append(c.violations, err.Error())
}

// fail answers with an error and a new request ID each time, as EC2 does.
func (c *Cloud) fail(w http.ResponseWriter, action string, err error) {
	answer, ok := errors.AsType[*refusal](err)
	if !ok {
		answer = &refusal{http.StatusInternalServerError, "InternalError", err.Error()}
	}
	c.mu.Lock()
	c.serial++
	id := c.serial
	c.mu.Unlock()
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.WriteHeader(answer.status)
	if serviceOf(action) == "sts" {
		_ = xml.NewEncoder(w).Encode(struct {
			XMLName xml.Name `xml:"ErrorResponse"`
			Code    string   `xml:"Error>Code"`
			Message string   `xml:"Error>Message"`
		}{Code: answer.code, Message: answer.message})
		return
	}
	body := struct {
		XMLName   xml.Name `xml:"Response"`
		Code      string   `xml:"Errors>Error>Code"`
		Message   string   `xml:"Errors>Error>Message"`
		RequestID string   `xml:"RequestID"`
	}{Code: answer.code, Message: answer.message, RequestID: fmt.Sprintf("request-%d", id)}
	_ = xml.NewEncoder(w).Encode(body) // the client may have closed the connection
}
