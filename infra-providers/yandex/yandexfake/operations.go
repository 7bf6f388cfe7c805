// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandexfake

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/operation"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// operationState is an operation of an object, and what a read of it does.
type operationState struct {
	*operation.Operation
	object string
	read   func()
}

// newOperation returns an operation that runs.
func (c *Cloud) newOperation(object string, metadata proto.Message) *operationState {
	begun := &operationState{object: object, read: func() {}, Operation: &operation.Operation{
		Id: c.nextID("fhmop"), CreatedAt: c.now(), ModifiedAt: c.now(), CreatedBy: ServiceAccount, Metadata: pack(metadata),
	}}
	c.operations[begun.Id] = begun
	return begun
}

// end ends an operation with a response or an error.
func (o *operationState) end(response proto.Message, failed *rpcstatus.Status) {
	o.Done = true
	switch {
	case failed != nil:
		o.Result = &operation.Operation_Error{Error: failed}
	case response == nil:
		o.Result = &operation.Operation_Response{Response: pack(&emptypb.Empty{})}
	default:
		o.Result = &operation.Operation_Response{Response: pack(response)}
	}
}

// failure is the error with which an operation ends.
func failure(fault Fault) *rpcstatus.Status {
	message := fault.Message
	if message == "" {
		message = fault.Operation.String()
	}
	to := &rpcstatus.Status{Code: int32(fault.Operation), Message: message} //nolint:gosec // it is small
	for _, detail := range fault.Details {
		to.Details = append(to.Details, pack(detail))
	}
	return to
}

func pack(message proto.Message) *anypb.Any {
	packed, err := anypb.New(message)
	if err != nil {
		panic(err) // all messages are of the API
	}
	return packed
}

// now is a time that grows with every object.
func (c *Cloud) now() *timestamppb.Timestamp {
	return timestamppb.New(time.Now().Add(time.Duration(c.serial) * time.Nanosecond))
}

func (c *Cloud) nextID(prefix string) string {
	c.serial++
	return fmt.Sprintf("%s%015d", prefix, c.serial)
}

func refuse(code codes.Code, format string, values ...any) error {
	return status.Errorf(code, format, values...)
}

// operationServer implements operation.OperationServiceServer.
type operationServer struct {
	operation.UnimplementedOperationServiceServer
	c *Cloud
}

func (s operationServer) Get(_ context.Context, request *operation.GetOperationRequest) (*operation.Operation, error) {
	found := s.c.operations[request.OperationId]
	if found == nil {
		return nil, refuse(codes.NotFound, "Operation %s not found", request.OperationId)
	}
	if !found.Done {
		found.read()
	}
	return proto.Clone(found.Operation).(*operation.Operation), nil
}

// ListOperations returns the operations of an instance, the newest first.
func (s instanceServer) ListOperations(_ context.Context, request *compute.ListInstanceOperationsRequest) (*compute.ListInstanceOperationsResponse, error) {
	answer := &compute.ListInstanceOperationsResponse{}
	for _, found := range s.c.operations {
		if found.object == request.InstanceId {
			answer.Operations = append(answer.Operations, proto.Clone(found.Operation).(*operation.Operation))
		}
	}
	slices.SortFunc(answer.Operations, func(a, b *operation.Operation) int { return strings.Compare(b.Id, a.Id) })
	return answer, nil
}
