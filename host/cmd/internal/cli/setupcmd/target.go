package setupcmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/admin/agents"
	"toolhost.dev/host/agent"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// clientVariable is the environment variable that contains the agent's token if the settings belong to a project. It
// differs from the variable of "toolhost serve", because a server in the same environment must not accept this token as
// its own.
const clientVariable = "TOOLHOST_CLIENT_TOKEN"

// target returns the server that the flags specify.
func (f *flags) target(place *agent.Place) (*agent.Target, error) {
	if f.url == "" {
		if f.variable != "" || f.file != "" || f.oauth {
			return nil, errors.New("--token-env, --token-file and --oauth are for servers over HTTP; add --url")
		}
		if f.endpoint != "" {
			if err := agents.CheckEndpoint(f.settings.Options(), f.endpoint); err != nil {
				return nil, fmt.Errorf("--endpoint: %w", err)
			}
		}
		self, err := program(place.Project)
		return &agent.Target{Program: self, Endpoint: f.endpoint}, err
	}
	u, err := agent.ServerURL(f.url, f.endpoint)
	if err != nil {
		return nil, err
	}
	t := &agent.Target{URL: u.String(), Variable: f.variable}
	switch {
	case f.oauth:
	case f.variable != "":
		if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(f.variable) {
			return nil, fmt.Errorf("--token-env: %q cannot name an environment variable; use letters, digits and '_'", f.variable)
		}
		t.Auth = agent.AuthVariable
	case f.file != "" && place.Project:
		return nil, errors.New("--token-file would write the token to the settings of the project, which others can read; use --token-env")
	case f.file != "":
		t.Auth = agent.AuthToken
	case !agent.Loopback(u):
		return nil, fmt.Errorf("%s is not on this machine, so no token can be created for it; use --token-env or --token-file with a token of its operator, or --oauth", u.Host)
	default:
		f.grant = &admin.TokenGrant{Rights: admin.RoleRights("caller")}
		if t.Auth = agent.AuthToken; place.Project {
			t.Auth, t.Variable = agent.AuthVariable, clientVariable
			f.grant.Workspaces = []string{place.Dir}
		}
	}
	return t, nil
}

// principal returns the name of the principal of an agent. Each project has its own principal, so that projects share
// no sessions.
func principal(a *agent.Agent, place *agent.Place) string {
	if !place.Project {
		return a.Name
	}
	base := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(filepath.Base(place.Dir)),
		"-"), "-")
	sum := sha256.Sum256([]byte(place.Dir))
	return strings.Join([]string{a.Name, base, hex.EncodeToString(sum[:3])}, "-")
}

// write writes the changes. For a server over HTTP, it first checks that the server accepts the agent. If that fails,
// write writes nothing and leaves no new token.
func (f *flags) write(ctx context.Context, store agent.Store, plan *agent.Plan, earlier []string) error {
	if plan.Target.URL == "" {
		if err := store.Write(plan); err != nil {
			return err
		}
		return f.revoke(earlier)
	}
	token, id, err := f.token(plan)
	if err != nil {
		return err
	}
	if plan.Target.Auth != agent.AuthVariable || token != "" {
		_, err = remoteTools(ctx, plan.Target.URL, bearer(token))
		err = rejection(plan.Target.URL, err, f)
	}
	if err == nil {
		plan.SetToken(token)
		plan.RecordToken(id)
		err = store.Write(plan)
	}
	if err != nil {
		if id != "" {
			_, failed := admin.RevokeToken(f.settings.Options(), id)
			err = errors.Join(err, failed)
		}
		return err
	}
	if id != "" && plan.Target.Auth == agent.AuthVariable {
		fmt.Fprintf(f.settings.Out, "Set the token in the environment of %s. It is not shown again:\nexport %s=%s\n", plan.Agent.Title, plan.Target.Variable, token)
		f.settings.Setenv(plan.Target.Variable, token) // the function prove needs this variable
	}
	return f.revoke(earlier)
}

// token returns the agent's token, or "" if the token is unknown. If the token is new, it also returns the id of the
// token.
func (f *flags) token(plan *agent.Plan) (token, id string, err error) {
	switch {
	case f.file != "":
		b, err := os.ReadFile(f.settings.Path(f.file))
		if err != nil {
			return "", "", fmt.Errorf("--token-file: %w", err)
		}
		if token = strings.TrimSpace(string(b)); token == "" || strings.ContainsAny(token, " \t\r\n") {
			return "", "", fmt.Errorf("--token-file: %s does not contain one token", f.file)
		}
		return token, "", nil
	case f.grant == nil:
		return f.settings.Getenv(plan.Target.Variable), "", nil
	}
	secret, t, err := agents.CreateToken(f.settings.Options(), principal(plan.Agent, plan.Place), f.grant)
	return secret, t.ID, err
}

// revoke revokes the tokens with these ids and prints them.
func (f *flags) revoke(ids []string) error {
	for _, id := range ids {
		gone, err := admin.RevokeToken(f.settings.Options(), id)
		if err != nil {
			return fmt.Errorf("token %s could not be revoked: %w; run: toolhost token revoke %[1]s", id, err)
		}
		for _, t := range gone {
			fmt.Fprintf(f.settings.Out, "Revoked token %s of principal %s.\n", t.ID, screen.Printable(t.Principal))
		}
	}
	return nil
}
