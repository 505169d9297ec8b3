package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/sdk/tool"
)

// Token describes a token that authenticates a principal. It does not contain the secret.
type Token = principal.Token

// TokenGrant contains the rights of a token whose principal is not in the configuration.
type TokenGrant = principal.StoredGrant

// Roles lists the names of the roles that a token can have.
func Roles() []string { return []string{"caller", "viewer", "approver", "administrator"} }

// RoleRights returns the names of the rights of a role. It returns nil for an unknown role.
func RoleRights(role string) []string {
	if !slices.Contains(Roles(), role) {
		return nil
	}
	return principal.Roles[role].Names()
}

// CreateToken creates a token for a principal and returns the secret of the token. The secret is not stored. The token
// is valid at once, also in running hosts. A zero lifetime means that the token does not expire. If the configuration
// contains a principal with this name, the rights of the principal apply, and grant must be nil. Otherwise grant must
// not be nil.
func CreateToken(opts Options, name string, lifetime time.Duration,
	grant *TokenGrant) (secret string, token Token, err error) {
	cfg, tokens, err := openTokens(opts)
	if err != nil {
		return "", Token{}, err
	}
	known := slices.ContainsFunc(cfg.Access.Principals, func(b principal.Block) bool { return b.Name == name })
	switch {
	case !tool.ValidName(name) || slices.Contains(config.ReservedPrincipals, name):
		return "", Token{}, fmt.Errorf("%q cannot name a principal: use lower-case letters, digits, '_', '-' and '.', beginning with a letter. These names are taken: %s", name, strings.Join(config.ReservedPrincipals, ", "))
	case known && grant != nil:
		return "", Token{}, fmt.Errorf("the configuration has principal %q, which sets its rights: leave out --role, --in, --tool and --field, or use another name", name)
	case !known && grant == nil:
		return "", Token{}, fmt.Errorf("the configuration has no principal %q: set the rights of the token with --role, or add principal %[1]q { … }", name)
	}
	if secret, token, err = tokens.Create(name, lifetime, grant); err != nil {
		return "", Token{}, err
	}
	return secret, token, audited(opts, "(create token)", map[string]any{"principal": name, "token_id": token.ID})
}

// Tokens returns all tokens in the state directory.
func Tokens(opts Options) ([]Token, error) {
	_, tokens, err := openTokens(opts)
	if err != nil {
		return nil, err
	}
	return tokens.All()
}

// RevokeToken removes the token with the given id, or all tokens of the principal with this name. Running hosts
// immediately reject these tokens. RevokeToken returns the removed tokens.
func RevokeToken(opts Options, name string) ([]Token, error) {
	_, tokens, err := openTokens(opts)
	if err != nil {
		return nil, err
	}
	gone, err := tokens.Revoke(name)
	if err != nil || len(gone) == 0 {
		return gone, err
	}
	return gone, audited(opts, "(revoke token)", map[string]any{"name": name, "count": len(gone)})
}

// HasPrincipals reports whether the configuration has principals or the state directory has tokens.
func HasPrincipals(opts Options) (bool, error) {
	cfg, tokens, err := openTokens(opts)
	if err != nil {
		return false, err
	}
	all, err := tokens.All()
	return len(cfg.Access.Principals) > 0 || len(all) > 0, err
}

func openTokens(opts Options) (*config.Config, *principal.Tokens, error) {
	source, err := engine.Options(opts).Source()
	if err != nil {
		return nil, nil, err
	}
	cfg, err := source.Open()
	if err != nil {
		return nil, nil, err
	}
	dir, err := state.FindDir(opts.StateDir, cfg.Host.StateDir)
	if err != nil {
		return nil, nil, err
	}
	return cfg, principal.OpenTokens(dir), nil
}
