// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandexfake

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/iam/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const keyID = "ajekey00000000000001"

// Key returns the authorized key of the service account, as yc iam key create writes it.
func (c *Cloud) Key() []byte {
	private, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		panic(err) // it is an RSA key
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	content, err := json.Marshal(map[string]string{
		"id": keyID, "service_account_id": ServiceAccount, "key_algorithm": "RSA_2048", "created_at": "2026-01-01T00:00:00Z", "public_key": "",
		"private_key": "PLEASE DO NOT REMOVE THIS LINE! Yandex.Cloud SA Key ID <" + keyID + ">\n" + string(block),
	})
	if err != nil {
		panic(err) // strings can always be marshalled
	}
	return content
}

// Token returns a token that is valid.
func (c *Cloud) Token() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newToken()
}

func (c *Cloud) newToken() string {
	token := "t1." + c.nextID("token")
	c.tokens[token] = true
	return token
}

// RevokeTokens makes all tokens invalid.
func (c *Cloud) RevokeTokens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens = map[string]bool{}
}

// tokenServer implements iam.IamTokenServiceServer.
type tokenServer struct {
	iam.UnimplementedIamTokenServiceServer
	c *Cloud
}

// Create returns a token for what the service account's key has signed.
func (s tokenServer) Create(_ context.Context, request *iam.CreateIamTokenRequest) (*iam.CreateIamTokenResponse, error) {
	_, err := jwt.Parse(request.GetJwt(), func(token *jwt.Token) (any, error) {
		if token.Header["kid"] != keyID {
			return nil, jwt.ErrTokenUnverifiable
		}
		return &s.c.key.PublicKey, nil
	}, jwt.WithValidMethods([]string{"PS256"}), jwt.WithAudience("https://iam.api.cloud.yandex.net/iam/v1/tokens"), jwt.WithIssuer(ServiceAccount),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt())
	if err != nil {
		return nil, refuse(codes.Unauthenticated, "The token is invalid")
	}
	return &iam.CreateIamTokenResponse{IamToken: s.c.newToken(), ExpiresAt: timestamppb.New(time.Now().Add(12 * time.Hour))}, nil
}
