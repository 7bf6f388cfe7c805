// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandexfake

import (
	"context"

	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/resourcemanager/v1"
	"google.golang.org/grpc/codes"
)

// imageServer implements compute.ImageServiceServer.
type imageServer struct {
	compute.UnimplementedImageServiceServer
	c *Cloud
}

// image returns an image, or nil.
func (c *Cloud) image(id string) *compute.Image {
	status := compute.Image_READY
	switch id {
	case BrokenImage:
		status = compute.Image_ERROR
	case Image, c.newest:
	default:
		return nil
	}
	return &compute.Image{Id: id, FolderId: ImageFolder, Family: Family, Status: status, MinDiskSize: 10 << 30, Os: &compute.Os{Type: compute.Os_LINUX}}
}

// Get returns an image.
func (s imageServer) Get(_ context.Context, request *compute.GetImageRequest) (*compute.Image, error) {
	if found := s.c.image(request.ImageId); found != nil {
		return found, nil
	}
	return nil, refuse(codes.NotFound, "Image %s not found", request.ImageId)
}

// GetLatestByFamily returns the newest image of a family.
func (s imageServer) GetLatestByFamily(_ context.Context, request *compute.GetImageLatestByFamilyRequest) (*compute.Image, error) {
	if request.FolderId != ImageFolder || request.Family != Family {
		return nil, refuse(codes.NotFound, "Image with family %s not found in folder %s", request.Family, request.FolderId)
	}
	return s.c.image(s.c.newest), nil
}

// folderServer implements resourcemanager.FolderServiceServer.
type folderServer struct {
	resourcemanager.UnimplementedFolderServiceServer
	c *Cloud
}

// Get returns the folder.
func (s folderServer) Get(_ context.Context, request *resourcemanager.GetFolderRequest) (*resourcemanager.Folder, error) {
	if request.FolderId != Folder {
		return nil, refuse(codes.NotFound, "Folder %s not found", request.FolderId)
	}
	return &resourcemanager.Folder{Id: Folder, CloudId: "b1gcloud000000000001", Name: "drover", Status: resourcemanager.Folder_ACTIVE}, nil
}
