// A real OpenID Connect issuer for the tests: the certified library of Zitadel with its own example of
// accounts and pages. It listens on the loopback, or at OIDC_LISTEN, with TLS where OIDC_CERT and
// OIDC_KEY are files, and prints its address. What is added: people's names
// in ID tokens, groups, the device flow for every client, and POST /rotate?alg=ES256, which puts a new
// key in the place of the old one.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

type key struct {
	id      string
	alg     jose.SignatureAlgorithm
	private any
	public  any
}

type signing struct{ key }
type published struct{ key }

func (k signing) SignatureAlgorithm() jose.SignatureAlgorithm { return k.alg }
func (k signing) Key() any                                    { return k.private }
func (k signing) ID() string                                  { return k.id }
func (k published) ID() string                                { return k.id }
func (k published) Algorithm() jose.SignatureAlgorithm        { return k.alg }
func (k published) Use() string                               { return "sig" }
func (k published) Key() any                                  { return k.public }

type client struct{ op.Client }

func (client) IDTokenUserinfoClaimsAssertion() bool { return true }
func (client) DevMode() bool                        { return true }
func (client) IsScopeAllowed(scope string) bool     { return scope == "groups" }
func (c client) GrantTypes() []oidc.GrantType {
	return append(c.Client.GrantTypes(), oidc.GrantTypeDeviceCode)
}

type store struct {
	*storage.Storage
	mu  sync.Mutex
	n   int
	now key
}

func (s *store) rotate(alg string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	k := key{id: fmt.Sprintf("key-%d", s.n), alg: jose.SignatureAlgorithm(alg)}
	if alg == "ES256" {
		p, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		k.private, k.public = p, &p.PublicKey
	} else {
		p, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return err
		}
		k.alg, k.private, k.public = jose.RS256, p, &p.PublicKey
	}
	s.now = k
	return nil
}

func (s *store) SigningKey(context.Context) (op.SigningKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return signing{s.now}, nil
}

func (s *store) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256, jose.ES256}, nil
}

func (s *store) KeySet(context.Context) ([]op.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []op.Key{published{s.now}}, nil
}

func (s *store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return client{c}, nil
}

// The example forgets for which client it renews what a device got.
type renewal struct {
	op.RefreshTokenRequest
	client string
}

func (r renewal) GetClientID() string { return r.client }

func (s *store) TokenRequestByRefreshToken(ctx context.Context, token string) (op.RefreshTokenRequest, error) {
	r, err := s.Storage.TokenRequestByRefreshToken(ctx, token)
	if err != nil {
		return nil, err
	}
	if r.GetClientID() == "" {
		return renewal{r, os.Args[2]}, nil
	}
	return r, nil
}

func (s *store) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, r op.IDTokenRequest, scopes []string) error {
	if err := s.Storage.SetUserinfoFromRequest(ctx, info, r, scopes); err != nil {
		return err
	}
	for _, scope := range scopes {
		if scope == "groups" {
			info.AppendClaims("groups", []string{"lab"})
		}
	}
	return nil
}

// oidc-issuer USERS.json [CLIENT REDIRECT [SECRET]]
func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: oidc-issuer USERS.json CLIENT REDIRECT [SECRET]")
		os.Exit(2)
	}
	users, err := storage.StoreFromFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	if len(os.Args) > 4 {
		storage.RegisterClients(storage.WebClient(os.Args[2], os.Args[4], os.Args[3]))
	} else {
		storage.RegisterClients(storage.NativeClient(os.Args[2], os.Args[3]))
	}
	s := &store{Storage: storage.NewStorage(users)}
	if err := s.rotate("RS256"); err != nil {
		panic(err)
	}
	at, cert, scheme := os.Getenv("OIDC_LISTEN"), os.Getenv("OIDC_CERT"), "http://"
	if at == "" {
		at = "127.0.0.1:0"
	}
	if cert != "" {
		scheme = "https://"
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		panic(err)
	}
	issuer := scheme + l.Addr().String()
	router := exampleop.SetupServer(issuer, s, slog.New(slog.NewTextHandler(os.Stderr, nil)), false)
	mux := http.NewServeMux()
	mux.Handle("/", router)
	mux.HandleFunc("POST /rotate", func(w http.ResponseWriter, r *http.Request) {
		if err := s.rotate(r.FormValue("alg")); err != nil {
			http.Error(w, err.Error(), 500)
		}
	})
	fmt.Println(issuer)
	if cert != "" {
		panic(http.ServeTLS(l, mux, cert, os.Getenv("OIDC_KEY")))
	}
	panic(http.Serve(l, mux))
}
