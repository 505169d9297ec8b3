package agents

import (
	"fmt"
	"slices"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/sdk/suggest"
)

// CheckEndpoint returns an error if the configuration has no endpoint with this name, or if it is not trusted.
func CheckEndpoint(opts admin.Options, name string) error {
	source, err := engine.Options(opts).Source()
	if err != nil {
		return err
	}
	cfg, err := source.Open()
	if err != nil || hasEndpoint(cfg, name) {
		return err
	}
	if all, err := source.Load(); err == nil && hasEndpoint(all, name) {
		return fmt.Errorf("%s has the endpoint %q, but it is not trusted. Review it: toolhost trust", source.Path, name)
	}
	var names []string
	for _, e := range cfg.Endpoints {
		names = append(names, e.Name)
	}
	if len(names) == 0 {
		return fmt.Errorf("the configuration has no endpoint %q; add endpoint %[1]q { … } to it", name)
	}
	return fmt.Errorf("the configuration has no endpoint %q; it has %q.%s", name, names, suggest.DidYouMean(name, names))
}

func hasEndpoint(cfg *config.Config, name string) bool {
	return slices.ContainsFunc(cfg.Endpoints, func(e config.Endpoint) bool { return e.Name == name })
}

// CreateToken creates the token of an agent, which does not expire. The grant applies unless the configuration has a
// block for the principal. CreateToken returns the secret of the token, which is not stored.
func CreateToken(opts admin.Options, name string,
	grant *admin.TokenGrant) (secret string, token admin.Token, err error) {
	source, err := engine.Options(opts).Source()
	if err != nil {
		return "", token, err
	}
	cfg, err := source.Open()
	if err != nil {
		return "", token, err
	}
	if slices.ContainsFunc(cfg.Access.Principals, func(b principal.Block) bool { return b.Name == name }) {
		grant = nil
	}
	return admin.CreateToken(opts, name, 0, grant)
}
