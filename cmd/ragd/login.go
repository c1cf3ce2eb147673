package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"ragd/login"
)

// loginFlags set up sign-in at an OpenID provider; without an issuer there is none.
type loginFlags struct {
	Issuer           string        `help:"OpenID provider that people sign in at, such as https://id.example.com/realms/staff. Empty: keys only." env:"RAGD_LOGIN_ISSUER"`
	ClientID         string        `help:"Of ragd at the provider, where PUBLIC-URL/login/callback is its redirect URL." env:"RAGD_LOGIN_CLIENT_ID" name:"client-id"`
	ClientSecret     string        `help:"Of ragd at the provider. Empty: a public client." env:"RAGD_LOGIN_CLIENT_SECRET" secret:""`
	ClientSecretFile string        `help:"File that holds the client secret." env:"RAGD_LOGIN_CLIENT_SECRET_FILE" type:"path"`
	Grant            []string      `help:"Who may do what: GROUP=ROLE[@TENANT][:CORPUS+CORPUS]; the first that fits counts, * is everybody. May be repeated." placeholder:"GROUP=ROLE" env:"RAGD_LOGIN_GRANT" sep:";"`
	GroupsClaim      string        `help:"Where the provider tells groups, such as realm_access.roles." env:"RAGD_LOGIN_GROUPS_CLAIM" default:"groups"`
	TenantClaim      string        `help:"Where the provider tells the tenant. Empty: nowhere." env:"RAGD_LOGIN_TENANT_CLAIM"`
	Scopes           []string      `help:"What to ask of the provider beside openid." env:"RAGD_LOGIN_SCOPES" default:"profile,email"`
	Time             time.Duration `help:"How long somebody stays signed in." env:"RAGD_LOGIN_TIME" default:"12h"`
}

// provider is where people sign in; nil when they do not. It asks nothing of it yet.
func (f loginFlags) provider(publicURL string) (*login.Provider, error) {
	if f.Issuer == "" {
		return nil, nil
	}
	secret, err := secretOf(f.ClientSecret, f.ClientSecretFile)
	if err != nil {
		return nil, fmt.Errorf("read the client secret: %w", err)
	}
	c := login.Config{Issuer: f.Issuer, ClientID: f.ClientID, ClientSecret: secret, PublicURL: publicURL, Scopes: f.Scopes, GroupsClaim: f.GroupsClaim, TenantClaim: f.TenantClaim}
	for _, text := range f.Grant {
		g, err := login.ParseGrant(text)
		if err != nil {
			return nil, err
		}
		c.Grants = append(c.Grants, g)
	}
	return login.New(c)
}

// secretOf is a secret that is given itself or in a file.
func secretOf(text, file string) (string, error) {
	if file == "" {
		return strings.TrimSpace(text), nil
	}
	data, err := os.ReadFile(file)
	return strings.TrimSpace(string(data)), err
}
