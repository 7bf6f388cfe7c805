// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandexfake

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/iam/v1"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/operation"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/resourcemanager/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
)

// Server returns a server with all services. Each call holds the state of the cloud.
func (c *Cloud) Server() *grpc.Server {
	server := grpc.NewServer(grpc.UnaryInterceptor(c.intercept))
	compute.RegisterInstanceServiceServer(server, instanceServer{c: c})
	compute.RegisterDiskServiceServer(server, diskServer{c: c})
	compute.RegisterImageServiceServer(server, imageServer{c: c})
	operation.RegisterOperationServiceServer(server, operationServer{c: c})
	resourcemanager.RegisterFolderServiceServer(server, folderServer{c: c})
	iam.RegisterIamTokenServiceServer(server, tokenServer{c: c})
	return server
}

// faultKey is the key of the fault of a call in its context.
type faultKey struct{}

// intercept checks a call and lets it fail.
func (c *Cloud) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	method := shortName(info.FullMethod)
	c.counts[method]++
	if err := c.check(ctx, method, request.(proto.Message)); err != nil {
		return nil, err
	}
	fault := c.faultOf(method)
	if fault.Code != codes.OK {
		return nil, toStatus(fault)
	}
	answer, err := handle(context.WithValue(ctx, faultKey{}, fault), request)
	if fault.Lost {
		return nil, status.Error(codes.Unavailable, "transport is closing")
	}
	if answer, ok := answer.(proto.Message); ok && err == nil {
		return proto.Clone(answer), nil // it is marshalled after the state was released
	}
	return answer, err
}

// shortName is the service and the method, such as Instance/Create.
func shortName(full string) string {
	parts := strings.Split(strings.Trim(full, "/"), "/")
	service := parts[0][strings.LastIndex(parts[0], ".")+1:]
	return strings.TrimSuffix(service, "Service") + "/" + parts[1]
}

// check checks the token, and the request against the rules of the API.
func (c *Cloud) check(ctx context.Context, method string, request proto.Message) error {
	if found := violations(request.ProtoReflect()); len(found) > 0 {
		for _, violation := range found {
			c.violations = append(c.violations, method+": "+violation)
		}
		return status.Error(codes.InvalidArgument, strings.Join(found, "; "))
	}
	if method == "IamToken/Create" {
		return nil
	}
	header := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(header) != 1 || !c.tokens[strings.TrimPrefix(header[0], "Bearer ")] {
		return status.Error(codes.Unauthenticated, "The token is invalid or has expired.")
	}
	return nil
}

// faultOf returns the fault of a call.
func (c *Cloud) faultOf(method string) Fault {
	at := slices.IndexFunc(c.nextFaults, func(f Fault) bool {
		switch {
		case f.Lost:
			return IsChange(method)
		case f.Operation != codes.OK && f.Disk:
			return method == "Disk/Create"
		case f.Operation != codes.OK:
			return method == "Instance/Create"
		default:
			return method != "IamToken/Create"
		}
	})
	if at < 0 {
		return c.options.Faults(method)
	}
	fault := c.nextFaults[at]
	c.nextFaults = slices.Delete(c.nextFaults, at, at+1)
	return fault
}

// toStatus is the answer of a fault.
func toStatus(fault Fault) error {
	answer := status.New(fault.Code, fault.Message)
	for _, detail := range fault.Details {
		with, err := answer.WithDetails(protoadapt.MessageV1Of(detail))
		if err != nil {
			return err
		}
		answer = with
	}
	return answer.Err()
}

// once creates an object, or returns the operation of an earlier call with the same idempotency key.
func (c *Cloud) once(ctx context.Context, create func(key string, fault Fault) (*operationState, error)) (*operation.Operation, error) {
	keys := metadata.ValueFromIncomingContext(ctx, "idempotency-key")
	if len(keys) != 1 || uuid.Validate(keys[0]) != nil {
		c.violations = append(c.violations, "a creation has no idempotency key that is a UUID")
		return nil, status.Error(codes.InvalidArgument, "Idempotency-Key is not a UUID")
	}
	if known := c.byKey[keys[0]]; known != nil {
		return known.Operation, nil
	}
	fault, _ := ctx.Value(faultKey{}).(Fault)
	begun, err := create(keys[0], fault)
	if err != nil {
		return nil, err
	}
	c.byKey[keys[0]] = begun
	return begun.Operation, nil
}
